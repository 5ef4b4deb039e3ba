//! What a check found: a table, JSON, or a panic.

use serde::Serialize;
use std::fmt;

/// How the two sides of a statement are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Relation {
    /// left = right.
    Equal,
    /// left ≤ right.
    AtMost,
}

/// What a check says of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// It holds to its tolerance.
    Holds,
    /// It holds, but only as 0 = 0 or as nothing at all: this tests nothing.
    Vacuous,
    /// It could not be decided; the row says why. An assertion fails.
    Unknown,
    /// It does not hold.
    Fails,
}

/// One statement at the place where it is worst.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The statement as a formula.
    pub statement: String,
    /// The law, neuron, parameter or entry where the sides are furthest apart.
    pub place: String,
    /// The left side.
    pub left: f64,
    /// How the sides are to be related.
    pub relation: Relation,
    /// The right side.
    pub right: f64,
    /// |left − right| relative to the size of the terms of both sides; of an inequality by how much the left
    /// side is larger, relative to the right one, else 0.
    pub difference: f64,
    /// The largest relative difference that rounding explains.
    pub tolerance: f64,
    /// Of a bound r = found / bound, how much of it an attack has reached.
    pub r: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// What else is to say: why nothing was decided, how many entries are 0 = 0.
    pub note: String,
}

impl Row {
    /// left = right, where the sides are sums of terms of this size. It fails if the difference is more
    /// than `tolerance` times the size, or not a number; it is vacuous if the size is 0, and unknown if the
    /// size is infinite.
    pub fn equal(
        statement: impl Into<String>,
        place: impl Into<String>,
        [left, right]: [f64; 2],
        size: f64,
        tolerance: f64,
    ) -> Self {
        let apart = (left - right).abs();
        let difference = if apart == 0.0 { 0.0 } else { apart / size };
        let verdict = match difference <= tolerance {
            true if size == f64::INFINITY => Verdict::Unknown,
            true if size == 0.0 => Verdict::Vacuous,
            true => Verdict::Holds,
            false => Verdict::Fails,
        };
        Self {
            statement: statement.into(),
            place: place.into(),
            left,
            relation: Relation::Equal,
            right,
            difference,
            tolerance,
            r: None,
            verdict,
            note: String::new(),
        }
    }

    /// found ≤ bound, exactly: neither side is rounded in the other's favour. It is vacuous if nothing was
    /// found, and unknown if the bound is infinite.
    pub fn at_most(
        statement: impl Into<String>,
        place: impl Into<String>,
        [found, bound]: [f64; 2],
    ) -> Self {
        let holds = found <= bound;
        Self {
            statement: statement.into(),
            place: place.into(),
            left: found,
            relation: Relation::AtMost,
            right: bound,
            difference: if holds { 0.0 } else { found / bound - 1.0 },
            tolerance: 0.0,
            r: Some(found / bound),
            verdict: match holds {
                true if bound == f64::INFINITY => Verdict::Unknown,
                true if found == 0.0 => Verdict::Vacuous,
                true => Verdict::Holds,
                false => Verdict::Fails,
            },
            note: String::new(),
        }
    }

    /// A statement without numbers: it holds or fails.
    pub fn fact(statement: impl Into<String>, place: impl Into<String>, holds: bool) -> Self {
        Self::equal(
            statement,
            place,
            [f64::from(u8::from(holds)), 1.0],
            1.0,
            0.0,
        )
    }

    /// A statement that could not be decided, or tests nothing; it has no sides.
    pub(super) fn without(
        statement: impl Into<String>,
        verdict: Verdict,
        why: impl Into<String>,
    ) -> Self {
        Self {
            verdict,
            left: f64::NAN,
            right: f64::NAN,
            ..Self::fact(statement, "", true)
        }
        .noting(why)
    }

    pub(super) fn noting(self, note: impl Into<String>) -> Self {
        Self {
            note: note.into(),
            ..self
        }
    }
}

/// What a check found, a row per statement. It prints as a table.
///
/// ```
/// use emmy::testing::{Report, Row};
/// let mut report = Report::new("sides", 7);
/// report.push(Row::equal("a + b = c", "a = 1, b = 2", [3.0, 3.0], 6.0, 1e-12));
/// report.push(Row::at_most("|sin x| ≤ L", "x = 1.57", [0.9, 1.0]));
/// assert!(report.holds());
/// assert_eq!(report.rows[1].r, Some(0.9));
/// assert!(report.json().contains("\"verdict\":\"Holds\""));
/// assert!(report.to_string().starts_with("sides, seed 7: 2 of 2 statements hold"));
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was checked.
    pub check: String,
    /// The seed of all that was drawn.
    pub seed: u64,
    /// How to repeat it.
    pub repeat: String,
    /// The statements.
    pub rows: Vec<Row>,
}

impl Report {
    /// A report without rows.
    pub fn new(check: impl Into<String>, seed: u64) -> Self {
        let check = check.into();
        Self {
            repeat: format!("the check `{check}` of the same subject with seed {seed}"),
            check,
            seed,
            rows: Vec::new(),
        }
    }

    /// The same with the options of the check in its instructions to repeat it.
    pub(super) fn with_options(self, options: impl fmt::Display) -> Self {
        Self {
            repeat: format!("{}, {options}", self.repeat),
            ..self
        }
    }

    /// Adds a statement.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// The statements with this verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.verdict == verdict)
    }

    /// Whether no statement fails or is unknown.
    pub fn holds(&self) -> bool {
        let bad = [Verdict::Fails, Verdict::Unknown];
        self.rows.iter().all(|row| !bad.contains(&row.verdict))
    }

    /// Whether no statement says more than 0 = 0. A property test discards such a case
    /// (`prop_assume!(!report.is_vacuous())`).
    pub fn is_vacuous(&self) -> bool {
        self.with(Verdict::Holds).next().is_none() && self.holds()
    }

    /// The largest relative difference, and NaN if one is.
    pub fn worst(&self) -> f64 {
        let all = self.rows.iter().map(|row| row.difference);
        all.fold(0.0, |m: f64, x| if x > m || x.is_nan() { x } else { m })
    }

    /// The report as JSON, for other programs; numbers that are not finite are null.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers")
    }

    /// The report itself if every statement holds.
    ///
    /// # Panics
    /// With the report if a statement fails or could not be decided.
    #[track_caller]
    pub fn assert(self) -> Self {
        assert!(self.holds(), "{self}");
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, good) = (self.rows.len(), self.with(Verdict::Holds).count());
        write!(
            f,
            "{}, seed {}: {good} of {all} statements hold",
            self.check, self.seed
        )?;
        match self.with(Verdict::Vacuous).count() {
            0 => writeln!(f)?,
            n => writeln!(f, ", {n} as 0 = 0 or as nothing")?,
        }
        let head = ["", "place", "left", "", "right", "difference", "statement"].map(str::to_owned);
        let rows: Vec<[String; 7]> = self.rows.iter().map(cells).collect();
        let width = |k: usize| {
            let cells = rows.iter().chain([&head]).map(|row| row[k].chars().count());
            cells.max().unwrap_or(0)
        };
        let [a, b, c, d, e, g] = [0, 1, 2, 3, 4, 5].map(width);
        for [verdict, place, left, relation, right, difference, statement] in
            [&head].into_iter().chain(&rows)
        {
            writeln!(
                f,
                "{verdict:<a$}  {place:<b$}  {left:>c$} {relation:<d$} {right:<e$}  {difference:<g$}  {statement}"
            )?;
        }
        if !self.holds() {
            writeln!(f, "repeat: {}", self.repeat)?;
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 7] {
    let verdict = match row.verdict {
        Verdict::Holds => "holds",
        Verdict::Vacuous => "vacuous",
        Verdict::Unknown => "unknown",
        Verdict::Fails => "FAILS",
    };
    let relation = match row.relation {
        Relation::Equal => "=",
        Relation::AtMost => "≤",
    };
    let difference = match row.r {
        Some(r) => format!("r {r:.4}"),
        None if row.difference == 0.0 => "0".to_owned(),
        None => format!("{:.1e}", row.difference),
    };
    let statement = match row.note.is_empty() {
        true => row.statement.clone(),
        false => format!("{} ({})", row.statement, row.note),
    };
    let mut sides = [row.left, row.right].map(short);
    if row.verdict == Verdict::Fails && sides[0] == sides[1] {
        sides = [row.left, row.right].map(|x| format!("{x:?}"));
    }
    let [left, right] = sides;
    [
        verdict.to_owned(),
        row.place.clone(),
        left,
        relation.to_owned(),
        right,
        difference,
        statement,
    ]
}

/// Six digits, without an exponent where that is short; a count as such.
fn short(x: f64) -> String {
    match x.abs() {
        size if size.is_nan() => "–".to_owned(),
        size if size < 1e6 && x.fract() == 0.0 => format!("{:.0}", x + 0.0),
        size if (1e-3..1e6).contains(&size) => format!("{x:.6}"),
        _ => format!("{x:.5e}"),
    }
}
