//! Learning rates by epoch and by step.

use emmy::optim::{Decay, Schedule, Unit};

fn factors(schedule: Schedule, epochs: usize) -> Vec<f64> {
    (0..epochs).map(|e| schedule.factor(e)).collect()
}

const STEP: Decay = Decay::Step {
    every: 3,
    gamma: 0.5,
};

#[test]
fn each_schedule_is_its_formula() {
    assert_eq!(
        factors(STEP.into(), 7),
        [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25]
    );
    let cosine = Decay::Cosine { over: 4, end: 0.2 };
    let half = 0.4 * 0.5_f64.sqrt();
    let expected = [1.0, 0.6 + half, 0.6, 0.6 - half, 0.2, 0.2];
    for (a, b) in factors(cosine.into(), 6).iter().zip(expected) {
        assert!((a - b).abs() < 1e-15);
    }
    assert_eq!(Schedule::default().factor(1_000_000), 1.0);
}

#[test]
fn after_a_warm_up_the_inverse_square_root_is_the_transformers() {
    let warm_up = 4;
    let schedule = Schedule {
        warm_up,
        then: Decay::InverseSqrt { over: warm_up },
        unit: Unit::Steps,
    };
    // min(K^−½, K warm_up^−3/2) relative to its largest value; after the warm-up our K counts from 0.
    let transformers = |k: f64| 2.0 * (1.0 / k.sqrt()).min(k * 4.0_f64.powf(-1.5));
    for k in 0..4 {
        assert!((schedule.factor(k) - transformers(k as f64 + 1.0)).abs() < 1e-15);
    }
    for k in 4..40 {
        assert!((schedule.factor(k) - transformers(k as f64)).abs() < 1e-15);
    }
    assert_eq!(schedule.factor(16), 0.5);
}

#[test]
fn after_the_warm_up_the_rest_starts_from_its_beginning() {
    let schedule = Schedule {
        warm_up: 2,
        then: STEP,
        ..Schedule::default()
    };
    assert_eq!(factors(schedule, 6), [0.5, 1.0, 1.0, 1.0, 1.0, 0.5]);
    let at_once = Decay::Cosine { over: 0, end: 0.3 };
    assert_eq!(Schedule::from(at_once).factor(0), 0.3);
}

#[test]
fn senseless_constants_are_refused() {
    let (every, gamma, over) = (0, 0.5, 3);
    for bad in [
        Decay::Step { every, gamma },
        Decay::Step {
            every: 1,
            gamma: f64::NAN,
        },
        Decay::Cosine { over, end: -0.1 },
        Decay::InverseSqrt { over: 0 },
    ] {
        assert!(Schedule::from(bad).validate().is_err(), "{bad:?}");
    }
    assert!(Schedule::default().validate().is_ok());
}

#[test]
fn epochs_and_steps_are_two_counts() {
    let by = |unit| Schedule {
        unit,
        ..STEP.into()
    };
    // Three batches per epoch: after 4 epochs come the steps 12, 13, 14.
    let factors = |unit| [12, 13, 14].map(|step| by(unit).at(4, step));
    assert_eq!(factors(Unit::Epochs), [0.5; 3]);
    assert_eq!(factors(Unit::Steps), [0.0625; 3]);
}
