//! `audit`: the arithmetic of printed tables, and what it finds in those of the four papers.

use crate::{command, json, refused, succeeded};
use papers::audit::{chance, fits, largest_deviation};
use papers::support::paper::Number;
use papers::support::report::mean_std;
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

fn found(check: &str, more: &[&str]) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let args = [&["--json"], more].concat();
    let (out, _) = succeeded(&command("audit", &folder, &args).output().unwrap());
    let objects = json(&out).into_iter();
    objects.filter(|found| found["check"] == check).collect()
}

fn in_table<'a>(found: &'a [Value], table: &str, set: &str) -> &'a Value {
    let mut all = found.iter();
    all.find(|x| x["table"] == table && x["set"] == set)
        .unwrap_or_else(|| panic!("{table} {set}: {found:#?}"))
}

/// Table 2 of "Are GATs Out of Balance?": the means of CiteSeer are those of five runs on 988 nodes, those
/// without isolated nodes, and not of 1000; the three smallest graphs have the 37 and 51 test nodes of one
/// split, as the smallest of all numbers of nodes that fit.
#[test]
fn means_tell_the_test_sets() {
    let means = found("means", &["--paper", "balance"]);
    let citeseer = in_table(&means, "balance 2", "citeseer");
    let fit = |found: &Value, examples: u64| {
        let fits = found["fits"].as_array().unwrap();
        let fit = fits.iter().find(|fit| fit["examples"] == examples).unwrap();
        (
            fit["fitting"].as_u64().unwrap(),
            fit["by_chance"].as_f64().unwrap(),
        )
    };
    let (all, by_chance) = fit(citeseer, 988);
    assert!(all == 15 && by_chance < 1e-4, "{citeseer}");
    let (some, by_chance) = fit(citeseer, 1000);
    assert!(some == 9 && by_chance > 0.1, "{citeseer}");
    for (set, nodes) in [
        ("cornell", 37),
        ("texas", 37),
        ("wisconsin", 51),
        ("chameleon", 456),
    ] {
        let found = in_table(&means, "balance 2", set);
        assert_eq!(found["examples"][0], nodes, "{found}");
        assert!(found["expected"].as_f64().unwrap() < 1e-3, "{found}");
    }
    for table in ["balance 3", "balance 4"] {
        assert_eq!(fit(in_table(&means, table, "cora"), 1000).0, 36);
    }
}

/// E23: Table 7 says ± 92.8 at 37.3, which four accuracies between 0 and 100 cannot have, and five no less.
#[test]
fn spreads_tell_that_table_7_has_three_runs_at_most() {
    let excesses = found("spreads", &[]);
    assert!(
        excesses.iter().all(|x| x["table"] == "balance 7"),
        "{excesses:?}"
    );
    let at_most = |printed: &str| {
        let found = excesses.iter().find(|x| x["printed"] == printed).unwrap();
        found["at_most"].as_u64().unwrap()
    };
    assert_eq!(excesses.len(), 5);
    for printed in ["37.3 ± 92.8", "37.3 ± 79.6", "13.9 ± 56.8", "12.4 ± 42.7"] {
        assert_eq!(at_most(printed), 3);
    }
}

/// E11: two of the nineteen averages on GLUE.
#[test]
fn averages_are_those_of_their_rows_but_two() {
    let averages = found("averages", &[]);
    assert_eq!(averages.len(), 19);
    let wrong: Vec<_> = averages.iter().filter(|x| x["holds"] == false).collect();
    let rows: Vec<_> = wrong.iter().map(|x| x["row"].as_str().unwrap()).collect();
    assert_eq!(rows, ["BERT + ContraNorm*", "ALBERT-base"]);
    assert!((wrong[1]["computed"].as_f64().unwrap() - 84.14).abs() < 1e-9);
}

/// E21: constant predictions are shares of the test sets of the published code; 23.37 is a share of none.
#[test]
fn constant_predictions_tell_the_test_sets() {
    let constants = found("constants", &["--paper", "oversmoothing"]);
    let sizes: Vec<_> = (constants.iter())
        .map(|x| (x["printed"].as_str().unwrap(), x["examples"].clone()))
        .collect();
    let expected = [
        ("7.79 ± 0.00", serde_json::json!([2068])),
        ("19.65 ± 0.00", serde_json::json!([2707])),
        ("22.37 ± 0.00", serde_json::json!([456])),
        ("23.37 ± 0.00", serde_json::json!([])),
        ("19.31 ± 0.00", serde_json::json!([1041])),
    ];
    assert_eq!(sizes, expected);
}

/// E20: where Table 6 has a number of Table 4 (Adam), it is the same, and where it has one of Tables 2 and 3
/// (gradient descent), it is another. E24: a row of Table 4 of "ContraNorm" stands in its Table 6 as another.
#[test]
fn table_6_is_one_of_adam() {
    let shared = found("shared", &["--paper", "balance"]);
    let of = |tables: [&str; 2]| {
        let pairs = shared
            .iter()
            .filter(|x| x["tables"] == serde_json::json!(tables));
        let counts = pairs.map(|x| [&x["numbers"], &x["equal"]].map(|n| n.as_u64().unwrap()));
        counts.fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
    };
    assert_eq!(of(["balance 4", "balance 6"]), [2, 2]);
    assert_eq!(of(["balance 3", "balance 6"]), [2, 0]);
    assert_eq!(of(["balance 2", "balance 6"]), [10, 0]);
}

/// E24: the row "SG, LN" of Table 4 of "ContraNorm" has all ten numbers of "before residual" of Table 6, and
/// not those of the default form.
#[test]
fn a_row_of_table_4_is_one_of_table_6() {
    let twins = found("twins", &["--paper", "oversmoothing"]);
    let rows: Vec<_> = twins.iter().map(|x| x["rows"].clone()).collect();
    let twin = |other: &str| rows.contains(&serde_json::json!(["SG, LN", other]));
    assert!(
        twin("before residual") && !twin("after residual"),
        "{rows:?}"
    );
}

/// The committed runs: Table 6 is more likely under Adam than under gradient descent, and Table 3 less.
#[test]
fn our_runs_tell_the_optimiser() {
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
    let settings = found("settings", &["--results", results]);
    let likeliest = |table: &str, set: &str| {
        let mut of = settings
            .iter()
            .filter(|x| x["table"] == table && x["set"] == set);
        of.find(|x| x["rank"] == 1).unwrap()["setting"].clone()
    };
    assert_eq!(likeliest("balance 6", "citeseer"), "Adam");
    assert_eq!(likeliest("balance 2", "citeseer"), "gradient descent");
    assert_eq!(likeliest("balance 3", "cora"), "gradient descent");
    assert_eq!(likeliest("balance 4", "cora"), "Adam");
}

#[test]
fn the_findings_are_tables_for_readers() {
    let folder = TempDir::new().unwrap();
    let args = ["--paper", "self_attention"];
    let (out, _) = succeeded(&command("audit", &folder, &args).output().unwrap());
    assert!(out.starts_with("1 tables, 23 printed numbers"), "{out}");
    let (out, _) = succeeded(&command("audit", &folder, &[]).output().unwrap());
    for text in [
        "37.3 ± 92.8",
        "532/2707",
        "988: 15 of 15",
        "SG, LN = before residual",
    ] {
        assert!(out.contains(text), "{text}: {out}");
    }
    let output = command("audit", &folder, &["--results", "nowhere"])
        .output()
        .unwrap();
    refused(
        &output,
        "--results: expected a folder with results, found nowhere",
    );
}

proptest! {
    /// Every mean of runs fits its own denominator, and a print fits with the probability that is stated.
    #[test]
    fn a_mean_fits_its_denominator(answers in prop::collection::vec(0..=96_u32, 1..7), decimals in 0..3_usize) {
        let denominator = 96 * answers.len() as u32;
        let mean = 100.0 * f64::from(answers.iter().sum::<u32>()) / f64::from(denominator);
        let print = Number::parse(&format!("{mean:.decimals$}")).unwrap();
        prop_assert!(fits(&print, denominator), "{print}");
        let prints = 100 * 10_u32.pow(decimals as u32);
        let all = (0..=prints).map(|k| Number {
            mean: f64::from(k) / 10_f64.powi(decimals as i32),
            decimals: decimals as u32,
            spread: None,
        });
        let fitting = all.filter(|number| fits(number, denominator)).count();
        let expected = chance(decimals as u32, denominator) * f64::from(prints + 1);
        prop_assert!((fitting as f64 - expected).abs() < 1e-6, "{fitting} {expected}");
    }

    /// No accuracies have a larger deviation than the largest, which those at the ends have.
    #[test]
    fn no_deviation_is_larger(values in prop::collection::vec(0.0..100.0_f64, 2..8), full in 0..8_usize, between in 0.0..100.0_f64) {
        let n = values.len();
        let (mean, std) = mean_std(&values);
        prop_assert!(std <= largest_deviation(mean, n as u32) + 1e-9);
        // All but one at an end.
        let ends = |k: usize| match k {
            0 => between,
            k if k <= full => 100.0,
            _ => 0.0,
        };
        let ends: Vec<f64> = (0..n).map(ends).collect();
        let (mean, std) = mean_std(&ends);
        prop_assert!((std - largest_deviation(mean, n as u32)).abs() < 1e-6);
    }
}
