//! How likely printed means are if they were made with the settings of runs of ours.

use crate::support::paper::Number;
use crate::support::report::mean_std;

/// The runs of ours under one setting, beside each printed number.
pub struct Setting {
    pub name: String,
    /// Values in percent, one per run; empty where the setting was not run.
    pub ours: Vec<Vec<f64>>,
}

/// One setting beside the printed numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Likelihood {
    pub setting: String,
    /// The sum of the logarithms of the densities of all printed numbers.
    pub log: f64,
    /// The root mean square of the differences in standard errors.
    pub errors: f64,
}

/// Settings beside the same printed numbers.
#[derive(Debug, Clone)]
pub struct Comparison {
    pub table: String,
    pub what: String,
    /// The numbers that have at least two runs under every setting.
    pub numbers: usize,
    /// The most likely setting first.
    pub settings: Vec<Likelihood>,
}

/// The least standard deviation of runs: two runs may agree by accident.
const LEAST: f64 = 0.3;

/// Compares settings on the printed numbers for which all of them have at least two runs; `None` if there is
/// no such number, or only one setting. `runs` is the number of runs of a printed mean.
pub fn compare(
    table: &str,
    what: &str,
    printed: &[Number],
    runs: u32,
    settings: &[Setting],
) -> Option<Comparison> {
    let known = |k: &usize| settings.iter().all(|setting| setting.ours[*k].len() > 1);
    let common: Vec<usize> = (0..printed.len()).filter(known).collect();
    if common.is_empty() || settings.len() < 2 {
        return None;
    }
    let of = |setting: &Setting| {
        let each: Vec<(f64, f64)> = common
            .iter()
            .map(|&k| density(&printed[k], runs, &setting.ours[k]))
            .collect();
        let squares: f64 = each.iter().map(|(_, z)| z * z).sum();
        Likelihood {
            setting: setting.name.clone(),
            log: each.iter().map(|(log, _)| log).sum(),
            errors: (squares / each.len() as f64).sqrt(),
        }
    };
    let mut all: Vec<Likelihood> = settings.iter().map(of).collect();
    all.sort_by(|a, b| b.log.total_cmp(&a.log));
    Some(Comparison {
        table: table.to_owned(),
        what: what.to_owned(),
        numbers: common.len(),
        settings: all,
    })
}

/// The logarithm of the density of a printed mean of r runs given n runs of ours, and the difference in
/// standard errors.
///
/// If all runs are normal with one mean and one deviation, (x − m)/(s √(1/n + 1/r)) has Student's
/// distribution with n − 1 degrees of freedom, with the mean m and the deviation s of our runs.
fn density(printed: &Number, runs: u32, ours: &[f64]) -> (f64, f64) {
    let (mean, std) = mean_std(ours);
    let n = ours.len() as f64;
    let scale = std.max(LEAST) * (1.0 / n + 1.0 / f64::from(runs)).sqrt();
    let z = (printed.mean - mean) / scale;
    let freedom = n - 1.0;
    let constant = ln_gamma_of_half(ours.len()) - ln_gamma_of_half(ours.len() - 1);
    let log = constant
        - 0.5 * (freedom * std::f64::consts::PI).ln()
        - 0.5 * (freedom + 1.0) * (z * z / freedom).ln_1p()
        - scale.ln();
    (log, z)
}

/// ln Γ(k/2), by Γ(x + 1) = x Γ(x), Γ(1) = 1 and Γ(½) = √π.
fn ln_gamma_of_half(k: usize) -> f64 {
    match k {
        0 => f64::INFINITY,
        1 => 0.5 * std::f64::consts::PI.ln(),
        2 => 0.0,
        _ => (k as f64 / 2.0 - 1.0).ln() + ln_gamma_of_half(k - 2),
    }
}
