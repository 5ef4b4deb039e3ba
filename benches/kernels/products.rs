//! Dense products, beside ndarray's. `benches/peers/gemm` compares them with the gemm crate's.

use crate::{D, Kernel, N, WORDS, drop_tensor, normal};
use emmy::Tensor;
use emmy::kernels::gemm;
use ndarray::{ArrayView2, Ix2};
use std::hint::black_box;

pub fn kernels() -> Vec<Kernel> {
    let x = normal(&[N, D], 1);
    let w = normal(&[D, D], 2);
    let mut all = vec![
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
    ];
    // Cora's features if they were dense; a transformer's products; squares.
    let sizes = [
        [N, WORDS, D],
        [2048, 512, 512],
        [2048, 512, 2048],
        [2048, 2048, 512],
        [512, 2048, 2048],
        [64, 64, 64],
        [128, 128, 128],
        [256, 256, 256],
        [512, 512, 512],
        [1024, 1024, 1024],
        [2048, 2048, 2048],
    ];
    all.extend(sizes.map(|[m, k, n]| {
        let name = format!("{m}×{k} · {k}×{n}");
        product(&name, normal(&[m, k], 3), normal(&[k, n], 4))
    }));
    all
}

fn product(name: &str, a: Tensor<f32>, b: Tensor<f32>) -> Kernel {
    let [m, k, n] = [a.shape()[0], a.shape()[1], b.shape()[1]];
    let (c, d) = (a.clone(), b.clone());
    Kernel::new(name, 2.0 * (m * k * n) as f64, 0.0, move || {
        drop_tensor(gemm::matmul_batched(&a, &b))
    })
    .against(move || {
        black_box(matrix(&c).dot(&matrix(&d)));
    })
}

fn matrix(x: &Tensor<f32>) -> ArrayView2<'_, f32> {
    x.view().into_dimensionality::<Ix2>().expect("a matrix")
}
