//! stub
#![allow(missing_docs)]
pub mod map {
    use crate::{real::Real, tensor::Tensor};
    pub fn unary<F: Real>(x: &Tensor<F>, f: impl Fn(F) -> F + Sync) -> Tensor<F> {
        x.mapv(f).into_shared()
    }
    pub fn binary<F: Real>(
        op: &str,
        a: &Tensor<F>,
        b: &Tensor<F>,
        f: impl Fn(F, F) -> F + Sync,
    ) -> Tensor<F> {
        let s = crate::tensor::broadcast_shapes(op, a.shape(), b.shape());
        let (a, b) = (a.broadcast(&s[..]).unwrap(), b.broadcast(&s[..]).unwrap());
        ndarray::Zip::from(a)
            .and(b)
            .map_collect(|&x, &y| f(x, y))
            .into_shared()
    }
    pub fn add_assign<F: Real>(a: &mut Tensor<F>, b: &Tensor<F>) {
        *a += b;
    }
}
