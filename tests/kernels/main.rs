//! Arithmetic without a tape: kernels, linear algebra and tensors, against plain loops and known values. With
//! `EMMY_VECTORS=256` the kernels run with AVX2, with `EMMY_VECTORS=none` and the feature `scalar` without
//! vectors.

mod attention;
mod elementary;
mod gemm;
mod index;
mod instances;
mod interval;
mod linalg;
mod map;
mod memory;
mod norm;
mod norms;
mod par;
mod random;
mod random_words;
mod reduce;
mod segment;
mod shape;
mod softmax;
mod spmm;
mod support;
mod tensor;
mod update;
mod vectors;
