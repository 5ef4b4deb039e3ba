//! LayerNorm and RMSNorm, fused, against the compositions they stand for; and loops that move the same bytes
//! and compute nothing.

use crate::{Kernel, drop_tensor, normal};
use emmy::autodiff::vjp;
use emmy::tensor::memory;
use emmy::{Tape, Tensor, Var};
use std::hint::black_box;

const EPS: f32 = 1e-5;

/// Rows of a graph with the features of a wide layer; tokens of a small transformer.
const SIZES: [[usize; 2]; 2] = [[3072, 128], [2048, 512]];

pub fn kernels() -> Vec<Kernel> {
    let sizes = SIZES.into_iter();
    sizes.flat_map(|[n, d]| of_size(n, d)).collect()
}

fn of_size(n: usize, d: usize) -> Vec<Kernel> {
    let (x, gy) = (normal(&[n, d], 1), normal(&[n, d], 2));
    let (gain, bias) = (normal(&[d], 3), normal(&[d], 4));
    let once = (4 * n * d) as f64;
    let mut all = Vec::new();
    // y from x; and x̄ from x and ȳ.
    for (what, backward, times) in [("forward", false, 2.0), ("forward and backward", true, 5.0)] {
        for centred in [true, false] {
            let operands = [&x, &gain, &bias, &gy].map(Clone::clone);
            let step = move |fused: bool| {
                let [x, gain, bias, gy] = &operands;
                let tape = Tape::new();
                let [x, gain, bias] = [x, gain, bias].map(|p| tape.var(p.clone()));
                let y = match (centred, fused) {
                    (true, true) => x.layer_norm(Some(gain), Some(bias), EPS),
                    (false, true) => x.rms_norm(Some(gain), EPS),
                    (true, false) => composed(x - x.mean(&[-1], true), gain) + bias,
                    (false, false) => composed(x, gain),
                };
                if backward {
                    let wanted = [x, gain, bias];
                    let wanted = &wanted[..if centred { 3 } else { 2 }];
                    vjp(y, wanted, gy).into_iter().for_each(drop_tensor);
                }
            };
            let name = if centred { "layer_norm" } else { "rms_norm" };
            let plain = step.clone();
            let title = format!("{name} {n} × {d}, {what}");
            let kernel = Kernel::new(title, 0.0, times * once, move || step(true));
            all.push(kernel.against(move || plain(false)));
        }
        let (x, gy) = (x.clone(), gy.clone());
        let title = format!("the bytes of layer_norm {n} × {d}, {what}");
        all.push(Kernel::new(title, 0.0, times * once, move || {
            moved(&x, &gy, backward)
        }));
    }
    all
}

fn composed<'t>(x: Var<'t, f32>, gain: Var<'t, f32>) -> Var<'t, f32> {
    let size = x.square().mean(&[-1], true).add_scalar(EPS).sqrt();
    x / size * gain
}

/// A copy of x; with `backward`, the sum of x and ȳ too.
fn moved(x: &Tensor<f32>, gy: &Tensor<f32>, backward: bool) {
    let (x, gy) = (
        x.as_slice().expect("contiguous"),
        gy.as_slice().expect("contiguous"),
    );
    black_box(memory::copy(x));
    if backward {
        let mut gx = memory::scratch(x.len());
        for (gx, (x, gy)) in gx.iter_mut().zip(x.iter().zip(gy)) {
            *gx = x + gy;
        }
        black_box(gx);
    }
}
