//! Products with a sparse matrix, and what its entries gather and its rows and columns sum up.

use crate::{D, Kernel, N, PAIRS, STORED, WORDS, normal};
use emmy::Tensor;
use emmy::graph::generators::random_graph;
use emmy::kernels::{segment, spmm};
use std::hint::black_box;
use std::sync::Arc;

pub fn kernels() -> Vec<Kernel> {
    let graph = random_graph(N, PAIRS, 1);
    let adjacency = graph.gcn_norm::<f32>();
    let pattern = &adjacency.pattern;
    let edges = pattern.nnz();
    let (x, y) = (normal(&[N, D], 1), normal(&[N, D], 2));
    let values = adjacency.values.clone();
    let row = 4.0 * D as f64;
    let pass = edges as f64 * (8.0 + row) + N as f64 * row;
    let slice = |x: &Tensor<f32>| x.as_slice().unwrap().to_vec();
    let (xs, ys, vs) = (slice(&x), slice(&y), slice(&values.clone().into_dyn()));
    let per_edge = slice(&normal(&[edges, D], 3));
    let scores = slice(&normal(&[edges, 8], 4));
    let features = {
        let mut places: Vec<(usize, usize)> = (0..STORED)
            .map(|k| (k % N, (k * 7919 + k / N * 31) % WORDS))
            .collect();
        places.sort_unstable();
        places.dedup();
        emmy::sparse::Pattern::from_pairs(N, WORDS, &places).unwrap()
    };
    let stored = features.nnz() as f64;
    let weight = slice(&normal(&[WORDS, D], 5));
    let ones = vec![1.0_f32; features.nnz()];
    let sprs = adjacency.to_sprs();
    let dense = x.clone().into_dimensionality::<ndarray::Ix2>().unwrap();
    let p = || Arc::clone(pattern);
    macro_rules! with {
        ($($name:ident = $value:expr),* => $body:expr) => {{ $(let $name = $value.clone();)* move || $body }};
    }
    vec![
        Kernel::new(
            "spmm, 64 wide",
            2.0 * (edges * D) as f64,
            pass,
            with!(p = p(), vs = vs, xs = xs => drop(black_box(spmm::spmm(&p, &vs, &xs, 1, D)))),
        )
        .against(move || {
            black_box(&sprs * &dense);
        }),
        Kernel::new(
            "spmmᵀ, 64 wide",
            2.0 * (edges * D) as f64,
            pass,
            with!(p = p(), vs = vs, xs = xs => drop(black_box(spmm::spmm_t(&p, &vs, &xs, 1, D)))),
        ),
        Kernel::new(
            "sddmm, 64 wide",
            2.0 * (edges * D) as f64,
            pass,
            with!(p = p(), xs = xs, ys = ys => drop(black_box(spmm::sddmm(&p, &xs, &ys, 1, D)))),
        ),
        Kernel::new(
            "sparse features · W",
            2.0 * stored * D as f64,
            stored * (8.0 + row) + N as f64 * row,
            with!(p = features, v = ones, w = weight => drop(black_box(spmm::spmm(&p, &v, &w, 1, D)))),
        ),
        Kernel::new(
            "sparse featuresᵀ · ȳ",
            2.0 * stored * D as f64,
            stored * (8.0 + row) + WORDS as f64 * row,
            with!(p = features, v = ones, y = ys => drop(black_box(spmm::spmm_t(&p, &v, &y, 1, D)))),
        ),
        Kernel::new(
            "gather rows",
            0.0,
            edges as f64 * 2.0 * row,
            with!(p = p(), xs = xs => drop(black_box(segment::gather_rows(&p, &xs, D)))),
        ),
        Kernel::new(
            "segment sum",
            0.0,
            edges as f64 * row + N as f64 * row,
            with!(p = p(), v = per_edge => drop(black_box(segment::segment_sum(&p, &v, D)))),
        ),
        Kernel::new(
            "segment max",
            0.0,
            edges as f64 * row + N as f64 * row,
            with!(p = p(), v = per_edge => drop(black_box(segment::segment_max(&p, &v, D)))),
        ),
        Kernel::new(
            "gather columns",
            0.0,
            edges as f64 * 2.0 * row,
            with!(p = p(), xs = xs => drop(black_box(segment::gather_cols(&p, &xs, D)))),
        ),
        Kernel::new(
            "segment sum over columns",
            0.0,
            edges as f64 * row + N as f64 * row,
            with!(p = p(), v = per_edge => drop(black_box(segment::segment_sum_t(&p, &v, D)))),
        ),
        Kernel::new(
            "segment softmax, 8 heads",
            0.0,
            edges as f64 * 64.0,
            with!(p = p(), v = scores => drop(black_box(segment::segment_softmax(&p, &v, 8)))),
        ),
    ]
}
