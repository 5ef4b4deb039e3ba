//! Rounding errors of single operations: what becomes of a large error, what is exact, what is refused.

use emmy::lipschitz::{Lp, rounding};
use emmy::nn::{AttentionConfig, MultiHeadAttention, Trace};
use emmy::ops::attention::Mask;
use emmy::tensor::tensor;
use emmy::{Real, Tape, Tensor, Var, init};

/// The k-th of these maps of z `[1, 2]`; none from the last on.
fn map<F: Real>(k: usize, z: Var<'_, F>) -> Option<Var<'_, F>> {
    let tape = z.tape();
    let of = |shape: &[usize]| tape.constant(Tensor::from_elem(shape, F::of(3.0)));
    let pattern = emmy::sparse::Pattern::from_pairs(2, 1, &[(0, 0), (1, 0)]).unwrap();
    Some(match k {
        0 => z * of(&[2]),
        1 => of(&[2]) * z,
        2 => z / of(&[2]),
        3 => of(&[2]) / z,
        4 => z.matmul(of(&[2, 1])),
        5 => of(&[2, 1]).matmul(z),
        6 => z.linear(of(&[4, 2])),
        7 => of(&[4, 2]).linear(z),
        8 => emmy::ops::sparse::spmm(&pattern, of(&[2]), z),
        9 => emmy::ops::sparse::spmm(&pattern, z.reshape(&[2]), of(&[1, 3])),
        10 => emmy::ops::sparse::sddmm(&pattern, of(&[2, 2]), z),
        11 => z.sum_all(),
        12 => z.square(),
        13 => z.sqrt(),
        14 => of(&[1, 2]) - z,
        15 => Var::concat(&[of(&[1, 2]), z], 0),
        16 => z.maximum(of(&[1, 2]) * 0.5),
        17 => z.max(&[1], true),
        18 => z * -1.5,
        19 => z.index_add(1, vec![1, 1], 3),
        20 => z * z,
        21 => z / (z + 1.0),
        _ => return None,
    })
}

/// z = (x + 2²²) − 2²² is wrong by nearly ¼ in `f32`; what each operation makes of that is within its bound.
#[test]
fn a_large_error_passes_through_every_operand() {
    fn z<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
        x + 2f64.powi(22) - 2f64.powi(22)
    }
    // The computed z is above the exact one, and below it.
    let starts = [2.251_f32, 2.249].map(|x| tensor(&[1, 2], vec![x; 2]));
    for (k, start) in (0..).flat_map(|k| starts.iter().map(move |start| (k, start))) {
        let (single, double) = (Tape::new(), Tape::new());
        let x = single.var(start.clone());
        let Some(y) = map(k, z(x)) else { break };
        let exact = map(k, z(double.var(start.mapv(f64::from)))).unwrap();
        let [e, around] = [0.0, 0.1].map(|radius| rounding(y, x, radius).unwrap());
        let bounds = e.entries().iter().zip(around.entries());
        let mut largest = 0.0_f64;
        for ((y, z), (e, around)) in y.value().iter().zip(&exact.value()).zip(bounds) {
            let off = (f64::from(*y) - z).abs();
            assert!(
                off <= e + 1e-8 && e <= around,
                "map {k}: {y} for {z}, bound {e}"
            );
            largest = largest.max(off / e);
        }
        assert!(
            largest > 0.1,
            "map {k}: the error is {largest} of the bound"
        );
    }
}

fn refusal<F: Real>(
    x: Tensor<F>,
    radius: f64,
    f: impl for<'t> Fn(Var<'t, F>) -> Var<'t, F>,
) -> String {
    let tape = Tape::new();
    let x = tape.var(x);
    rounding(f(x), x, radius).unwrap_err().to_string()
}

#[test]
fn what_has_no_bound_is_refused_and_named() {
    let x = || tensor(&[1, 2], vec![0.5_f32, -1.0]);
    for (f, reason) in [
        (
            (|x| x.tanh()) as for<'t> fn(Var<'t, f32>) -> Var<'t, f32>,
            "`tanh`: its rounding error is not known",
        ),
        (
            |x| x.softmax(-1),
            "`softmax`: the rounding errors of its exponentials",
        ),
        (
            |x| x.layer_norm(None, None, 1e-5),
            "`layer_norm`: the rounding errors of its moments",
        ),
        (|x| x.dropout(0.5, 0), "`dropout`: it is random"),
        (
            |x| (x * 1e30) * (x * 1e30),
            "`mul`: a value or its rounding error is not finite",
        ),
        (
            |x| x.abs().sqrt() / (x - x),
            "`div`: a division by something that may be 0",
        ),
        (|x| (x * x - x * x).sqrt(), "`sqrt`: its slope has no limit"),
    ] {
        let said = refusal(x(), 0.0, f);
        assert!(said.contains(reason), "{said}");
    }
    // Around an input, what may happen at another one.
    for (f, reason) in [
        (
            (|x| x * 3e38) as for<'t> fn(Var<'t, f32>) -> Var<'t, f32>,
            "may overflow at an input of the set",
        ),
        (
            |x| x.tape().constant(vec![1.0_f32, 1.0]) / x,
            "a division by something that may be 0",
        ),
    ] {
        let tape = Tape::new();
        let v = tape.var(x());
        assert!(rounding(f(v), v, 0.0).is_ok());
        let said = refusal(x(), 0.75, f);
        assert!(said.contains(reason), "{said}");
    }
    assert!(refusal(x(), f64::NAN, |x| x.relu()).contains("at least 0 and finite"));
    // A model names its layer.
    let layer =
        MultiHeadAttention::<f32>::new(AttentionConfig::new(4, 2), &mut init::rng(0)).unwrap();
    let tokens = init::normal(&[3, 4], 1.0, &mut init::rng(1));
    let trace = Trace::at(&layer, &tokens, |pass, x| {
        layer.forward(pass, x, &Mask::none())
    });
    let said = trace.rounding(0.0).unwrap_err().to_string();
    assert!(
        said.contains("MultiHeadAttention") && said.contains("`attend`"),
        "{said}"
    );
}

#[test]
fn what_is_exact_has_no_error_and_what_is_fixed_has_none() {
    let tape = Tape::<f32>::new();
    let x = tape.var(tensor(&[2, 3], vec![1.5, -0.1, 0.3, 1e-30, -2.0, 7.0]));
    for y in [
        -x,
        x.relu(),
        x.t(),
        x.slice(1, 0..2),
        x.max(&[0], false),
        x.clamp(-1.0, 0.25),
        x.abs().maximum(x),
    ] {
        assert_eq!(rounding(y, x, 0.0).unwrap().norm(Lp::Inf).get(), 0.0);
    }
    let fixed = tape.constant(vec![0.1_f32, 0.2, 0.3]);
    let product = fixed * fixed;
    let error = rounding(x.relu() * 0.0 + product, x, 0.0).unwrap();
    // The product is what it is; its sum with something that depends on x is rounded.
    assert!(error.norm(Lp::Inf).get() < 1e-8);
    assert_eq!(rounding(product, x, 0.0).unwrap().norm(Lp::Inf).get(), 0.0);
}
