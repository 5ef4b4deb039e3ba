//! The bound of the Jacobian at the recorded input.

use emmy::lipschitz::{Domain, Lp, bound, jacobian_norm};
use emmy::nn::{Activation, Mlp, Module, Pass, Trace};
use emmy::{Tape, init};

fn net(widths: &[usize], activation: Activation, seed: u64) -> Mlp<f64> {
    let rng = &mut init::rng(seed);
    let mut net = Mlp::new(widths, activation, true, rng);
    // Biases that are not 0, so that neurons differ.
    for entry in net
        .entries_mut()
        .into_iter()
        .filter(|entry| entry.tensor.ndim() == 1)
    {
        *entry.tensor = init::normal(entry.tensor.shape(), 0.5, rng);
    }
    net
}

/// Chains of linear maps and functions of one number have the norm of their Jacobian, of the row where it is largest;
/// the bound everywhere is larger.
#[test]
fn a_chain_has_the_norm_of_its_jacobian() {
    let mut sharper = 0.0_f64;
    for seed in 0..26 {
        for activation in [
            Activation::Relu,
            Activation::LeakyRelu { slope: 0.2 },
            Activation::Tanh,
            Activation::Elu,
            Activation::Gelu,
        ] {
            let net = net(&[5, 8, 7, 3], activation, seed);
            let x = init::normal(&[4, 5], 1.0, &mut init::rng(seed + 100));
            let tape = Tape::new();
            let x = tape.var(x);
            let y = net.forward(&Pass::eval(&tape, &net), x);
            for p in Lp::ALL {
                let of = |domain| bound(y, x, p, domain).unwrap().upper().get();
                let (here, everywhere) = (of(Domain::Here), of(Domain::Everywhere));
                let exact = jacobian_norm(y, x, p).0;
                assert!(
                    here >= exact.lower.get(),
                    "{activation:?} {p}: {here} {exact}"
                );
                assert!(
                    here <= exact.upper.get() * (1.0 + 1e-6),
                    "{activation:?} {p}: {here} {exact}"
                );
                assert!(
                    here <= everywhere,
                    "{activation:?} {p}: {here} {everywhere}"
                );
                sharper = sharper.max(everywhere / here);
            }
        }
    }
    assert!(sharper > 5.0, "{sharper}");
}

/// At a kink a function has the larger of its two slopes, so the bound is not below the norm on either side.
#[test]
fn at_a_kink_the_larger_slope_counts() {
    let tape = Tape::<f64>::new();
    let x = tape.var(emmy::tensor::tensor(&[1, 2], vec![0.0, -1.0]));
    for (y, expected) in [
        (x.relu(), 1.0),
        (x.leaky_relu(0.2), 1.0),
        (x.leaky_relu(3.0), 3.0),
        (x.elu(2.0), 2.0),
    ] {
        let found = bound(y, x, Lp::Two, Domain::Here).unwrap().upper().get();
        assert!(
            (found - expected).abs() < 1e-9,
            "{found}, expected {expected}"
        );
    }
}

/// A sum of two paths, a norm and attention are no chains: their bounds are composed as before, and sound.
#[test]
fn other_operations_end_a_chain() {
    let net = net(&[4, 6, 4], Activation::Relu, 1);
    let x = init::normal(&[3, 4], 1.0, &mut init::rng(2));
    let trace = Trace::at(&net, &x, |pass, x| {
        let y = x + net.forward(pass, x);
        let z = y.layer_norm(None, None, 1e-2);
        net.forward(pass, z.relu()) + z
    });
    for p in Lp::ALL {
        let found = trace.lipschitz_on(p, Domain::Here).unwrap();
        assert!(
            found.lower.get() > 0.0 && found.lower.get() <= found.upper.get(),
            "{found}"
        );
        let everywhere = trace.lipschitz_on(p, Domain::Everywhere).unwrap();
        assert!(found.upper <= everywhere.upper);
    }
}
