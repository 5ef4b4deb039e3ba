//! Dense products.

use crate::{D, Kernel, N, WORDS, drop_tensor, normal};
use emmy::Tensor;
use emmy::kernels::gemm;
use std::hint::black_box;

pub fn kernels() -> Vec<Kernel> {
    let product = |name: &str, a: Tensor<f32>, b: Tensor<f32>| {
        let flops = 2.0 * (a.shape()[0] * a.shape()[1] * b.shape()[1]) as f64;
        let two = |x: &Tensor<f32>| x.clone().into_dimensionality::<ndarray::Ix2>().unwrap();
        let (c, d) = (two(&a), two(&b));
        Kernel::new(name, flops, 0.0, move || {
            drop_tensor(gemm::matmul_batched(&a, &b))
        })
        .against(move || {
            black_box(c.dot(&d));
        })
    };
    let x = normal(&[N, D], 1);
    let w = normal(&[D, D], 2);
    vec![
        product(
            "x Wᵀ: 2708×64 · 64×64",
            x.clone(),
            w.clone().reversed_axes(),
        ),
        product("ȳ W: 2708×64 · 64×64", x.clone(), w.clone()),
        product(
            "ȳᵀ x: 64×2708 · 2708×64",
            x.clone().reversed_axes(),
            x.clone(),
        ),
        product(
            "dense features: 2708×1433 · 1433×64",
            normal(&[N, WORDS], 3),
            normal(&[WORDS, D], 4),
        ),
        product("64×64 · 64×64", w.clone(), w),
        product("512³", normal(&[512, 512], 5), normal(&[512, 512], 6)),
    ]
}
