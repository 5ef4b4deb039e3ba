//! Numbers rounded outwards.

use emmy::linalg::{Interval, Lower, Upper};

#[test]
fn sums_and_products_are_rounded_up() {
    let tenth = Upper::new(0.1);
    let sum: Upper = (0..10).map(|_| tenth).sum();
    assert!(sum.get() > 1.0 && sum.get() < 1.0 + 1e-14);
    assert!((tenth * tenth).get() > 0.1 * 0.1);
    assert!((Upper::ONE / Lower::new(3.0)).get() > 1.0 / 3.0);
    assert!(Upper::new(2.0).sqrt().get() > 2f64.sqrt());
}

#[test]
fn neutral_elements_are_exact() {
    let x = Upper::new(0.3);
    assert_eq!((x * Upper::ONE, x + Upper::ZERO), (x, x));
    assert_eq!(Upper::ZERO * Upper::INFINITE, Upper::ZERO);
    assert_eq!(Upper::ONE / Lower::ZERO, Upper::INFINITE);
}

#[test]
fn what_is_shown_is_a_bound_too() {
    assert_eq!(format!("{:.2}", Upper::new(1.231)), "≤ 1.24");
    assert_eq!(format!("{:.2}", Lower::new(1.239)), "≥ 1.23");
    assert_eq!(format!("{:.2}", Upper::new(1.25)), "≤ 1.25");
    let interval = Interval {
        lower: Lower::new(0.999_99),
        upper: Upper::INFINITE,
    };
    assert_eq!(format!("{interval:.3}"), "[0.999, ∞]");
    let huge = 297_376_051_706_676_736.0;
    assert_eq!(Upper::new(huge).to_string(), "≤ 2.9738e17");
    assert_eq!(Lower::new(huge).to_string(), "≥ 2.9737e17");
    let mut x = 1.234_567_891e-3;
    assert_eq!(Lower::new(f64::MAX).to_string(), "≥ 1.7976e308");
    assert_eq!(Upper::new(f64::MAX).to_string(), "≤ 1.7977e308");
    while x < 1e300 {
        let number = |text: String| text[4..].parse::<f64>().expect("a number");
        assert!(number(Upper::new(x).to_string()) >= x, "{x}");
        assert!(number(Lower::new(x).to_string()) <= x, "{x}");
        x *= 7.313;
    }
}

#[test]
fn a_contradiction_is_seen() {
    let wrong = Interval {
        lower: Lower::new(2.0),
        upper: Upper::new(1.0),
    };
    assert!(wrong.is_contradicted(1e-9) && wrong.ratio() == 0.5);
}

#[test]
#[should_panic(expected = "Upper: NaN bounds no quantity")]
fn not_a_number_is_no_bound() {
    Upper::new(f64::NAN);
}
