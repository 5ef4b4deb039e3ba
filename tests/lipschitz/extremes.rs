//! Weights of every size: no bound panics, no lower end is above the upper one, and no bound is 0 or NaN by accident.

use emmy::lipschitz::{Domain, Lp};
use emmy::nn::{Activation, Linear, Mlp, Module, Trace};
use emmy::{Real, Tensor, init};

/// A network of these widths whose weights are drawn and multiplied with `size`.
fn net<F: Real>(widths: &[usize], size: f64, activation: Activation) -> Mlp<F> {
    let mut net = Mlp::new(widths, activation, true, &mut init::rng(3));
    for entry in net.entries_mut() {
        let drawn: Tensor<f64> = init::normal(entry.tensor.shape(), 1.0, &mut init::rng(5));
        *entry.tensor = drawn.mapv(|x| F::of(x * size)).into_shared();
    }
    net
}

fn intervals<F: Real>(exponents: impl Iterator<Item = i32>) {
    let x = init::normal::<F>(&[2, 4], 1.0, &mut init::rng(1));
    for exponent in exponents {
        let size = 10f64.powi(exponent);
        for widths in [&[4, 3][..], &[4, 6, 3], &[4, 6, 1], &[4, 5, 6, 3]] {
            for activation in [
                Activation::Relu,
                Activation::Tanh,
                Activation::LeakyRelu { slope: 0.2 },
            ] {
                let net = net::<F>(widths, size, activation);
                let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
                for p in Lp::ALL {
                    for domain in [Domain::Everywhere, Domain::Here] {
                        let found = trace.lipschitz_on(p, domain).unwrap();
                        let (lower, upper) = (found.lower.get(), found.upper.get());
                        let of = format!(
                            "{} {widths:?} {activation:?} of size 1e{exponent}, p = {p}, {domain:?}: {found}",
                            F::NAME
                        );
                        assert!(!lower.is_nan() && lower.is_finite(), "{of}");
                        assert!(lower <= upper, "{of}");
                        // Nothing underflows where the product of the sizes does not.
                        let whole = f64::from(exponent) * (widths.len() - 1) as f64;
                        if whole.abs() < 280.0 && domain == Domain::Everywhere {
                            let ratio = upper.log10() - whole;
                            assert!((-3.0..3.0).contains(&ratio), "{of}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn weights_of_every_size_have_an_interval() {
    intervals::<f64>(
        (-306..=306)
            .step_by(18)
            .chain([75, 77, 78, 79, 102, 103, 153, 154, 160]),
    );
    intervals::<f32>((-36..=36).step_by(12));
}

/// The norm of a matrix with one row is known: the interval of a linear map contains it.
#[test]
fn a_known_norm_is_within_the_interval() {
    let x = init::normal::<f64>(&[1, 2], 1.0, &mut init::rng(1));
    for exponent in -100..=100 {
        let size = 2f64.powi(10 * exponent);
        let mut map = Linear::<f64>::new(2, 1, false, &mut init::rng(0));
        map.weight = emmy::tensor::tensor(&[1, 2], vec![3.0 * size, 4.0 * size]);
        let trace = Trace::at(&map, &x, |pass, x| map.forward(pass, x));
        for (p, norm) in [(Lp::One, 4.0), (Lp::Two, 5.0), (Lp::Inf, 7.0)] {
            let found = trace.lipschitz(p).unwrap();
            let (lower, upper, norm) = (found.lower.get(), found.upper.get(), norm * size);
            assert!(
                lower <= norm && norm <= upper,
                "2^{}, p = {p}: {found}",
                10 * exponent
            );
            assert!(
                upper <= norm * (1.0 + 1e-8) && lower >= norm * (1.0 - 1e-8),
                "2^{}, p = {p}: {found}",
                10 * exponent
            );
        }
    }
}
