//! What the sides of candle and burn share: options, numbers, how a step is measured, and how its results are
//! checked. `steps.py` and `dense.py` do the same.

use clap::Parser;
use std::fmt::Debug;
use std::time::Instant;

// Numbers of the sequences; `../dense.rs` has the same. Inputs count from 0, weights from WEIGHTS.
pub const COTANGENT: usize = 8;
pub const CHECK: usize = 9;
pub const WEIGHTS: usize = 10;

/// Time dense work
#[derive(Parser)]
struct Cli {
    /// The number of threads
    #[arg(long, default_value_t = 1)]
    threads: usize,

    /// Rows, with commas; all without it
    #[arg(long, value_delimiter = ',')]
    row: Vec<String>,

    /// Seconds per row
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,

    /// Measure the peak memory of some steps of one row, in place of their time
    #[arg(long, requires = "row")]
    memory: bool,
}

/// One step of a row, with its results: the output, then the gradients.
pub type Step<T, E> = Box<dyn FnMut() -> Result<Vec<T>, E>>;

/// The name of a row, the number of steps whose results are checked, and what makes the step.
pub type Row<T, E> = (&'static str, usize, fn() -> Result<Step<T, E>, E>);

/// Measures the rows that the command line names and prints a JSON object per row. `values` returns the
/// numbers of a result.
pub fn run<T, E: Debug>(
    who: &str,
    rows: &[Row<T, E>],
    values: impl Fn(&T) -> Result<Vec<f32>, E>,
) -> Result<(), E> {
    let cli = Cli::parse();
    // Pools of threads and libraries of products ask for them, when they are first used.
    std::env::set_var("RAYON_NUM_THREADS", cli.threads.to_string());
    std::env::set_var("MATMUL_NUM_THREADS", cli.threads.to_string());
    for (name, checked, make) in rows {
        if !cli.row.is_empty() && !cli.row.iter().any(|row| row == name) {
            continue;
        }
        let before = resident("VmRSS");
        let mut step = make()?;
        let mut line = serde_json::json!({"who": who, "row": name, "threads": cli.threads});
        if cli.memory {
            let _ = std::fs::write("/proc/self/clear_refs", "5");
            for _ in 0..3 {
                step()?;
            }
            let kb = resident("VmHWM")
                .zip(before)
                .map(|(most, before)| most - before);
            line["mb"] = kb.map(|kb| kb as f64 * 1.024e-3).into();
            println!("{line}");
            continue;
        }
        let mut checks = Vec::new();
        for _ in 0..*checked {
            for result in step()? {
                checks.push(check(&values(&result)?));
            }
        }
        let (min, median) = time(10, cli.seconds, &mut step)?;
        let ms = |s: f64| (s * 1e6).round() / 1e3;
        line["ms_min"] = ms(min).into();
        line["ms_median"] = ms(median).into();
        line["checks"] = serde_json::json!(checks);
        println!("{line}");
    }
    Ok(())
}

/// Seconds that `step` takes: minimum and median over at least `times` runs and `seconds` of them.
fn time<T, E>(times: usize, seconds: f64, step: &mut Step<T, E>) -> Result<(f64, f64), E> {
    step()?;
    let (mut samples, begin) = (Vec::new(), Instant::now());
    while samples.len() < times || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        step()?;
        samples.push(start.elapsed().as_secs_f64());
    }
    samples.sort_by(f64::total_cmp);
    Ok((samples[0], samples[samples.len() / 2]))
}

/// A size of this process in kB, where the system tells (Linux): `VmRSS`, resident now, or `VmHWM`, the most
/// that was resident so far.
fn resident(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Numbers in (−scale, scale) that look random: the fractional parts of 10⁴ sin(k + 0.37 · sequence).
pub fn numbers(len: usize, sequence: usize, scale: f64) -> Vec<f32> {
    let number = |k: usize| {
        let x = 1e4 * (k as f64 + 0.37 * sequence as f64).sin();
        (scale * (2.0 * (x - x.floor()) - 1.0)) as f32
    };
    (0..len).map(number).collect()
}

/// The norm of a result, and its inner product with fixed numbers.
fn check(x: &[f32]) -> [f64; 2] {
    let weights = numbers(x.len(), CHECK, 1.0);
    let terms = x
        .iter()
        .zip(&weights)
        .map(|(&x, &w)| (f64::from(x), f64::from(w)));
    let [square, product] = terms.fold([0.0, 0.0], |[square, product], (x, w)| {
        [square + x * x, product + w * x]
    });
    [square.sqrt(), product]
}
