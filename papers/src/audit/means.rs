//! Which numbers of runs and of test examples a printed mean fits.
//!
//! The mean of r runs on m examples is a multiple of 1/(r m). With two digits behind the point, fewer than
//! 10 000 such multiples leave gaps between the prints, so a list of prints says what r m is.

use super::printed::{Printed, Table};
use crate::support::paper::Number;
use std::cmp::Ordering;

/// Whether the percentage can be a mean over r runs on m examples, which are `denominator`
/// answers: the print of 100 k/(r m) for a whole k.
///
/// ```
/// use papers::audit::fits;
/// use papers::support::paper::Number;
///
/// // One wrong answer more or less of 456: 22.37 is 102/456, and 23.37 lies between two fractions.
/// let [right, wrong] = ["22.37", "23.37"].map(|text| Number::parse(text).unwrap());
/// assert!(fits(&right, 456) && !fits(&wrong, 456));
/// ```
pub fn fits(number: &Number, denominator: u32) -> bool {
    let share = f64::from(denominator) / 100.0;
    let nearest = (number.mean * share).round();
    number.is(nearest / share)
}

/// The probability with which a print drawn at random from 0 to 100 fits a denominator.
///
/// ```
/// use papers::audit::chance;
///
/// // Hundredths of a percent: a multiple of 1/4000 is 2.5 of them. Two prints of every five differ from all
/// // multiples, since a half is rounded up or down.
/// assert!((chance(2, 4000) - 0.6).abs() < 1e-3);
/// assert!((chance(2, 5000) - 0.5).abs() < 1e-3);
/// assert_eq!(chance(2, 10_000), 1.0);
/// ```
pub fn chance(decimals: u32, denominator: u32) -> f64 {
    let prints = 100 * 10_u64.pow(decimals);
    let denominator = u64::from(denominator);
    let (mut fitting, mut next) = (0, 0);
    for k in 0..=denominator {
        let (whole, rest) = (k * prints / denominator, k * prints % denominator);
        let (first, last) = match (2 * rest).cmp(&denominator) {
            Ordering::Less => (whole, whole),
            Ordering::Equal => (whole, whole + 1),
            Ordering::Greater => (whole + 1, whole + 1),
        };
        // Prints below `next` are counted.
        fitting += (last + 1).saturating_sub(first.max(next));
        next = next.max(last + 1);
    }
    fitting as f64 / (prints + 1) as f64
}

/// A number of runs and examples, and how many prints fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    pub runs: u32,
    pub examples: u32,
    pub fitting: usize,
    /// The probability that so many random prints or more fit.
    pub by_chance: f64,
    /// The prints that do not fit.
    pub others: Vec<String>,
}

/// What the prints of one set say.
#[derive(Debug, Clone)]
pub struct Grain {
    pub table: String,
    pub set: String,
    pub prints: usize,
    /// The runs that the paper names; 1 if it names none.
    pub runs: u32,
    /// The smallest numbers of examples that all prints fit with these runs.
    pub examples: Vec<u32>,
    /// The expected number of such numbers up to the first one if prints were random; `None` if there is
    /// none.
    pub expected: Option<f64>,
    /// The sizes of test sets that are known for the set.
    pub fits: Vec<Fit>,
}

/// The most numbers of examples of a [`Grain`].
const SHOWN: usize = 4;

/// The largest probability of a print that fits by chance at which its fit says something.
const TELLING: f64 = 0.8;

impl Grain {
    /// The grain of the prints of a set with these known sizes of a test set; `None` if their digits say
    /// nothing about any of them.
    pub fn of(table: &Table, set: &str, sizes: &[u32]) -> Option<Self> {
        let cells = table.of_set(set);
        let numbers: Vec<&Number> = cells.iter().map(|cell| &cell.number).collect();
        let decimals = numbers.iter().map(|number| number.decimals).min()?;
        let runs = table.runs.unwrap_or(1);
        let tells = |&m: &u32| chance(decimals, runs * m) < TELLING;
        if !table.percent || numbers.len() < 2 || !sizes.iter().any(tells) {
            return None;
        }
        let is_fit = |&m: &u32| numbers.iter().all(|number| fits(number, runs * m));
        let most = 100 * 10_u32.pow(decimals) / runs;
        let examples: Vec<u32> = (1..most).filter(is_fit).filter(tells).take(SHOWN).collect();
        let expected = examples.first().map(|&first| {
            let all_fit = |m: u32| chance(decimals, runs * m).powi(numbers.len() as i32);
            (1..=first).map(all_fit).sum()
        });
        let fit = |&examples: &u32| {
            let misfits = cells.iter().filter(|c| !fits(&c.number, runs * examples));
            let name = |c: &&Printed| format!("{} {}: {}", c.row, c.column, c.number);
            let others: Vec<String> = misfits.map(name).collect();
            let fitting = numbers.len() - others.len();
            let by_chance = at_least(fitting, numbers.len(), chance(decimals, runs * examples));
            Fit {
                runs,
                examples,
                fitting,
                by_chance,
                others,
            }
        };
        Some(Self {
            table: table.name(),
            set: set.to_owned(),
            prints: numbers.len(),
            runs,
            examples,
            expected,
            fits: sizes.iter().map(fit).collect(),
        })
    }
}

/// The probability of at least k successes of n, each with probability p.
fn at_least(k: usize, n: usize, p: f64) -> f64 {
    let mut term = (1.0 - p).powi(n as i32);
    if p >= 1.0 {
        return 1.0;
    }
    let mut below = 0.0;
    for j in 0..k {
        below += term;
        term *= (n - j) as f64 / (j + 1) as f64 * p / (1.0 - p);
    }
    // For small tails the sum of the upper terms is exact, 1 − the lower ones is not.
    match below < 0.5 {
        true => 1.0 - below,
        false => {
            let mut sum = 0.0;
            for j in k..=n {
                sum += term;
                term *= (n - j) as f64 / (j + 1) as f64 * p / (1.0 - p);
            }
            sum
        }
    }
}

/// A print that no test set explains that explains the other prints of constant predictions of its set.
#[derive(Debug, Clone)]
pub struct Constant {
    pub table: String,
    pub set: String,
    /// The prints with ± 0.00, each once, and where they stand.
    pub prints: Vec<(Number, Vec<String>)>,
    /// The known sizes of test sets that a print fits, per print.
    pub examples: Vec<Vec<u32>>,
}

/// Cells with a spread of 0 are one prediction for all examples, whose accuracy is that of a class: k/m for
/// one of the known sizes m. Empty if the table has none.
pub fn constants(table: &Table, sizes: impl Fn(&str) -> Vec<u32>) -> Vec<Constant> {
    let of_set = |set: &str| {
        let mut prints: Vec<(Number, Vec<String>)> = Vec::new();
        let is_constant = |cell: &&&Printed| cell.number.spread == Some(0.0);
        for cell in table.of_set(set).iter().filter(is_constant) {
            let place = format!("{} {}", cell.row, cell.column);
            match prints.iter_mut().find(|(number, _)| *number == cell.number) {
                Some((_, places)) => places.push(place),
                None => prints.push((cell.number.clone(), vec![place])),
            }
        }
        let known = sizes(set);
        let fitting = |(number, _): &(Number, Vec<String>)| -> Vec<u32> {
            known.iter().copied().filter(|&m| fits(number, m)).collect()
        };
        let examples = prints.iter().map(fitting).collect();
        (!prints.is_empty()).then(|| Constant {
            table: table.name(),
            set: set.to_owned(),
            prints,
            examples,
        })
    };
    table.sets().into_iter().filter_map(of_set).collect()
}
