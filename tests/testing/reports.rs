//! Reports: what they say, and when they panic.

use emmy::testing::{Report, Row, Verdict};

fn report() -> Report {
    let mut report = Report::new("example", 7);
    report.push(Row::equal(
        "a = b",
        "neuron 3",
        [1.0, 1.0 + 1e-13],
        2.0,
        1e-12,
    ));
    report.push(Row::equal("a = b", "neuron 4", [0.0, 0.0], 0.0, 1e-12));
    report.push(Row::at_most("f ≤ L", "an input", [0.25, 0.5]));
    report
}

#[test]
fn verdicts_follow_from_the_numbers() {
    let verdict =
        |left: f64, right: f64, size: f64| Row::equal("", "", [left, right], size, 1e-3).verdict;
    assert_eq!(verdict(1.0, 1.0005, 1.0), Verdict::Holds);
    assert_eq!(verdict(1.0, 1.002, 1.0), Verdict::Fails);
    assert_eq!(verdict(1.0, 1.002, 10.0), Verdict::Holds);
    assert_eq!(verdict(0.0, 0.0, 0.0), Verdict::Vacuous);
    assert_eq!(verdict(1.0, 0.0, 0.0), Verdict::Fails);
    assert_eq!(verdict(f64::NAN, 0.0, 1.0), Verdict::Fails);
    assert_eq!(verdict(1.0, 1.0, f64::NAN), Verdict::Holds);
    let bound = |found: f64, bound: f64| Row::at_most("", "", [found, bound]).verdict;
    assert_eq!(bound(1.0, 1.0), Verdict::Holds);
    assert_eq!(bound(1.0 + 1e-15, 1.0), Verdict::Fails);
    assert_eq!(bound(0.0, 1.0), Verdict::Vacuous);
    assert_eq!(bound(f64::NAN, 1.0), Verdict::Fails);
}

#[test]
fn a_report_is_a_table() {
    let expected = "\
example, seed 7: 2 of 3 statements hold, 1 as 0 = 0 or as nothing
         place         left   right     difference  statement
holds    neuron 3         1 = 1.000000  5.0e-14     a = b
vacuous  neuron 4         0 = 0         0           a = b
holds    an input  0.250000 ≤ 0.500000  r 0.5000    f ≤ L
";
    assert_eq!(report().to_string(), expected);
}

#[test]
fn a_report_is_json() {
    let json: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
    assert_eq!(json["seed"], 7);
    assert_eq!(json["rows"][2]["r"], 0.5);
    assert_eq!(json["rows"][1]["verdict"], "Vacuous");
    assert_eq!(json["rows"][0]["relation"], "Equal");
}

/// The message has the formula, the place, both sides, the seed and how to repeat it; the panic is where the
/// assertion stands.
#[test]
fn a_failing_assertion_says_all() {
    let mut report = report();
    assert!(!report.is_vacuous());
    report.push(Row::equal("c = d", "neuron 5", [2.0, 3.0], 5.0, 1e-12));
    assert_eq!(report.worst(), 0.2);
    let panic = std::panic::catch_unwind(|| report.assert()).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    for part in ["c = d", "neuron 5", "2 = 3 ", "seed 7", "FAILS", "repeat: "] {
        assert!(message.contains(part), "{part}: {message}");
    }
}
