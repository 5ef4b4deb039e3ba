//! The tables of the chapters are made from the rows: `EMMY_UPDATE=1 cargo test -p tests --test testing
//! statements` writes them.

use super::{Mutant, Row, root, rows};

const CHAPTERS: [(&str, &str); 5] = [
    ("laws", "docs/evidence/conservation.md"),
    ("errata", "docs/evidence/errata.md"),
    ("conservation", "docs/evidence/conservation.md"),
    ("collapse", "docs/evidence/collapse.md"),
    ("lipschitz", "docs/evidence/lipschitz.md"),
];

/// The row of a table.
fn line(row: &Row) -> String {
    let tests: Vec<String> = row.tests.iter().map(|test| format!("`{test}`")).collect();
    let place = row.place.as_deref().unwrap_or_default();
    let says = match (&*row.holds, &row.says) {
        (_, Some(says)) => says.clone(),
        ("definition", None) => "as a definition".to_owned(),
        (other, None) => other.to_owned(),
    };
    let cells = match (&*row.table, &row.mutant) {
        ("laws", Some(mutant)) => vec![
            row.id.clone(),
            row.statement.clone(),
            said(mutant),
            tests.join(", "),
        ],
        ("errata", Some(Mutant::Printed { printed })) => vec![
            row.id.clone(),
            place.to_owned(),
            printed.clone(),
            row.statement.clone(),
            tests.join(", "),
        ],
        _ => vec![
            place.to_owned(),
            row.statement.clone(),
            says,
            tests.join(", "),
        ],
    };
    format!("| {} |\n", cells.join(" | "))
}

/// What a mutant of a law changes.
fn said(mutant: &Mutant) -> String {
    match mutant {
        Mutant::Printed { printed } => printed.clone(),
        Mutant::Check { change, .. } => format!("{change} in place of 1"),
        Mutant::Loss { loss, .. } => format!("the loss {loss}"),
        Mutant::Term {
            term, factor: 0.0, ..
        } => format!("without term {}", term + 1),
        Mutant::Term { term, factor, .. } if *factor < 0.0 => {
            format!("term {} on the other side", term + 1)
        }
        Mutant::Term { term, factor, .. } => format!("term {} times {factor}", term + 1),
    }
}

fn table(name: &str) -> String {
    let head = match name {
        "laws" => "| | law | mutant | test |\n|---|---|---|---|\n",
        "errata" => "| | where | printed | holds | test |\n|---|---|---|---|---|\n",
        _ => "| where | statement | holds | test |\n|---|---|---|---|\n",
    };
    let rows = rows();
    let lines = rows.iter().filter(|row| row.table == name).map(line);
    format!("{head}{}", lines.collect::<String>())
}

#[test]
fn the_tables_of_the_chapters_are_made_of_the_rows() {
    let known = |row: &Row| CHAPTERS.iter().any(|(name, _)| *name == row.table);
    assert!(rows().iter().all(known));
    for (name, file) in CHAPTERS {
        let path = root().join(file);
        let page = std::fs::read_to_string(&path).unwrap();
        let (start, end) = (
            format!("<!-- statements: {name} -->\n"),
            "<!-- end of statements -->",
        );
        let (before, rest) = page
            .split_once(&start)
            .unwrap_or_else(|| panic!("{file}: {start}"));
        let (found, after) = rest.split_once(end).expect("the end of a table");
        let expected = table(name);
        if std::env::var_os("EMMY_UPDATE").is_some() {
            std::fs::write(&path, format!("{before}{start}{expected}{end}{after}")).unwrap();
        } else {
            assert!(
                found == expected,
                "{file}: the table {name:?} is not that of statements.json (EMMY_UPDATE=1 writes it)"
            );
        }
    }
}
