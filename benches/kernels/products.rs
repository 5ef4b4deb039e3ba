//! Dense products, beside one call of the gemm crate's.

use crate::{D, Kernel, N, WORDS, drop_tensor, normal};
use emmy::Tensor;
use emmy::kernels::gemm;
use gemm_common::Parallelism;
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
    let mut out = vec![0.0; m * n];
    Kernel::new(name, 2.0 * (m * k * n) as f64, 0.0, move || {
        drop_tensor(gemm::matmul_batched(&a, &b))
    })
    .against(move || {
        direct(&c, &d, &mut out);
        black_box(&mut out);
    })
}

/// out = a b by one call of the gemm crate, on the threads of the current pool.
#[allow(unsafe_code)]
fn direct(a: &Tensor<f32>, b: &Tensor<f32>, out: &mut [f32]) {
    let [m, k, n] = [a.shape()[0], a.shape()[1], b.shape()[1]];
    assert_eq!((b.shape()[0], out.len()), (k, m * n));
    let threads = match rayon::current_num_threads() {
        1 => Parallelism::None,
        threads => Parallelism::Rayon(threads),
    };
    let (s, t) = (a.strides(), b.strides());
    // SAFETY: the sizes and strides are those of the operands, and `out` holds m × n numbers. The kernel
    // writes columns, so it is given outᵀ = bᵀ aᵀ.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            n,
            m,
            k,
            out.as_mut_ptr(),
            n as isize,
            1,
            false,
            b.as_ptr(),
            t[0],
            t[1],
            a.as_ptr(),
            s[0],
            s[1],
            0.0,
            1.0,
            false,
            false,
            false,
            threads,
        );
    }
}
