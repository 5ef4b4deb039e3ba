//! The schedule that waits for a plateau.

use emmy::optim::Plateau;

#[test]
fn patience_cooldown_and_floor() {
    let mut plateau = Plateau {
        gamma: 0.5,
        patience: 1,
        threshold: 0.1,
        cooldown: 2,
        least: 0.3,
        ..Plateau::default()
    };
    // 9.5 is not 10 % below 10: bad, as the next; then two observations of cooling, and two bad ones again.
    let losses = [10.0, 9.5, 9.5, 9.5, 9.5, 9.5, 9.5, 1.0, 1.0];
    let factors: Vec<f64> = (losses.iter())
        .map(|&loss| {
            plateau.observe(loss, 1.0);
            plateau.factor()
        })
        .collect();
    assert_eq!(factors, [1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3]);
}

/// PyTorch's `ReduceLROnPlateau(patience=0, eps=1e-8)` of a rate of 10⁻³ ends at 10⁻⁸: from there the rate
/// would fall by 9·10⁻⁹.
#[test]
fn changes_of_at_most_eps_are_not_made() {
    let after = |eps: f64| {
        let mut plateau = Plateau {
            patience: 0,
            eps,
            ..Plateau::default()
        };
        (0..20).for_each(|_| plateau.observe(1.0, 1e-3));
        1e-3 * plateau.factor()
    };
    assert!((after(1e-8) / 1e-8 - 1.0).abs() < 1e-9);
    assert!((after(1e-5) / 1e-5 - 1.0).abs() < 1e-9);
    assert!(after(0.0) < 1e-20);
}

#[test]
fn senseless_constants_are_refused() {
    let good = Plateau::default();
    assert!(good.validate().is_ok());
    for bad in [
        Plateau { gamma: 1.0, ..good },
        Plateau {
            threshold: f64::NAN,
            ..good
        },
        Plateau { least: 2.0, ..good },
        Plateau { eps: -1.0, ..good },
    ] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
}
