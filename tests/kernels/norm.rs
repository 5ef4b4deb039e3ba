//! Normalised rows against plain loops.

use crate::support::{bits, close, data};
use emmy::kernels::norm::RowNorm;
use emmy::kernels::par;

/// Plain loops from the formulas, in `f64`: y, x̄, γ̄, β̄.
fn naive(norm: &RowNorm<'_, f64>, x: &[f64], gy: &[f64]) -> [Vec<f64>; 4] {
    let w = norm.width;
    let one = |p: Option<&[f64]>, j: usize, otherwise: f64| p.map_or(otherwise, |p| p[j]);
    let mut out = [
        vec![0.0; x.len()],
        vec![0.0; x.len()],
        vec![0.0; w],
        vec![0.0; w],
    ];
    for i in 0..x.len() / w {
        let row = &x[i * w..][..w];
        let mean = |f: &dyn Fn(usize) -> f64| (0..w).map(f).sum::<f64>() / w as f64;
        let mu = if norm.centred { mean(&|j| row[j]) } else { 0.0 };
        let r = (mean(&|j| (row[j] - mu).powi(2)) + norm.eps).sqrt().recip();
        let z = |j: usize| (row[j] - mu) * r;
        let g = |j: usize| one(norm.gain, j, 1.0) * gy[i * w + j];
        let (a, b) = (mean(&g), mean(&|j| g(j) * z(j)));
        let a = if norm.centred { a } else { 0.0 };
        for j in 0..w {
            out[0][i * w + j] = one(norm.gain, j, 1.0) * z(j) + one(norm.bias, j, 0.0);
            out[1][i * w + j] = r * (g(j) - a - z(j) * b);
            out[2][j] += gy[i * w + j] * z(j);
            out[3][j] += gy[i * w + j];
        }
    }
    out
}

#[test]
fn equals_plain_loops() {
    for (n, w) in [(1, 1), (3, 2), (70, 5), (200, 16), (9, 35), (130, 513)] {
        let (x, gy) = (data::<f64>(n * w, 1), data::<f64>(n * w, 2));
        let (gain, bias) = (data::<f64>(w, 3), data::<f64>(w, 4));
        for k in 0..8 {
            let norm = RowNorm {
                width: w,
                centred: k & 1 > 0,
                eps: 1e-3,
                gain: (k & 2 > 0).then_some(&gain[..]),
                bias: (k & 4 > 0).then_some(&bias[..]),
            };
            let expected = naive(&norm, &x, &gy);
            let (y, moments) = norm.forward(&x);
            close(&y, &expected[0], 1e-12);
            let found = norm.backward(&x, &moments, &gy, true);
            for (found, expected) in [&found.x[..], &found.gain, &found.bias]
                .into_iter()
                .zip(&expected[1..])
            {
                close(found, expected, 1e-10);
            }
            let less = norm.backward(&x, &moments, &gy, false);
            assert_eq!(bits(&less.x), bits(&found.x));
            assert!(less.gain.is_empty() && less.bias.is_empty());
        }
    }
}

#[test]
fn nothing_is_normalised_to_nothing() {
    for w in [0, 3] {
        let norm = RowNorm {
            width: w,
            centred: true,
            eps: 0.0_f32,
            gain: None,
            bias: None,
        };
        let (y, moments) = norm.forward(&[]);
        assert!(y.is_empty() && moments.is_empty());
        let found = norm.backward(&[], &[], &[], true);
        assert_eq!((found.gain, found.bias), (vec![0.0; w], vec![0.0; w]));
    }
}

/// The mean is taken off first: in the mean of squares less the square of the mean it would cancel.
#[test]
fn a_large_mean_costs_no_digits() {
    let x: Vec<f32> = data(512, 5);
    let far: Vec<f32> = x
        .iter()
        .map(|x| (x * 1024.0).round() / 1024.0 + 4096.0)
        .collect();
    let near: Vec<f32> = far.iter().map(|x| x - 4096.0).collect();
    let norm = RowNorm {
        width: 512,
        centred: true,
        eps: 0.0,
        gain: None,
        bias: None,
    };
    close(&norm.forward(&far).0, &norm.forward(&near).0, 2e-3);
    assert!((norm.forward(&far).1[1] / norm.forward(&near).1[1] - 1.0).abs() < 1e-6);
}

#[test]
fn bits_do_not_depend_on_threads() {
    let (n, w) = (3000, 70);
    let (x, gy) = (data::<f32>(n * w, 1), data::<f32>(n * w, 2));
    let (gain, bias) = (data::<f32>(w, 3), data::<f32>(w, 4));
    let norm = RowNorm {
        width: w,
        centred: true,
        eps: 1e-5,
        gain: Some(&gain),
        bias: Some(&bias),
    };
    let run = |threads| {
        par::with_threads(threads, || {
            let (y, moments) = norm.forward(&x);
            let g = norm.backward(&x, &moments, &gy, true);
            [bits(&y), bits(&g.x), bits(&g.gain), bits(&g.bias)]
        })
    };
    let one = run(1);
    for threads in 2..=4 {
        assert_eq!(run(threads), one);
    }
}
