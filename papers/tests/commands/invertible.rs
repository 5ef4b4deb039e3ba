//! The encoder of blocks that can be inverted.

use crate::tokens;
use emmy::autodiff::jacobian;
use emmy::linalg::svd;
use emmy::lipschitz::Lp;
use emmy::nn::{Pass, Trace};
use emmy::{Tape, init};
use papers::invertible::InvertibleEncoder;

/// A stack of norms, attention and feed-forward layers is inverted, and its determinant is within its bounds.
#[test]
fn an_encoder_is_inverted() {
    for seed in 0..3 {
        let rng = &mut init::rng(seed);
        let mut net = InvertibleEncoder::<f64>::new(3, [4, 2, 8], 0.6, rng).unwrap();
        let x = (tokens(5, 4, seed) * 2.0).into_shared();
        net.start(&x);
        let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
        let interval = trace.lipschitz(Lp::Two).unwrap();
        assert!(!interval.is_contradicted(1e-9) && interval.lower.get() > 0.0);
        let tape = Tape::new();
        let v = tape.var(x.clone());
        let y = net.forward(&Pass::eval(&tape, &net), v);
        let inverse = net.inverse(&y.value(), 1e-10).unwrap();
        let error = (&inverse.x - &x).mapv(|e| e * e).sum().sqrt();
        assert!(
            error <= 1e-10 && inverse.error <= 1e-10,
            "{error}, promised {}",
            inverse.error
        );
        let j = jacobian(y, v).into_shape_with_order((20, 20)).unwrap();
        let log_det: f64 = svd(j.view()).1.iter().map(|s| s.ln()).sum();
        let [low, high] = net.log_det(5);
        assert!(low <= log_det && log_det <= high, "{low} {log_det} {high}");
    }
    let refused = InvertibleEncoder::<f64>::new(1, [4, 2, 8], 1.0, &mut init::rng(0));
    assert!(refused.unwrap_err().to_string().contains("0 < c < 1"));
}
