//! The scalar: [`f32`] or [`f64`], nothing else; and elementary functions that vectorise.

mod elementary;
mod vectors;

pub use elementary::{Elementary, Format};
pub use vectors::Vectors;

use ndarray::NdFloat;
use num_traits::FloatConst;
use serde::{Serialize, de::DeserializeOwned};
use std::iter::Sum;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A floating-point scalar: [`f32`] or [`f64`].
///
/// The trait is sealed: kernels and derivatives are tested for these two types and no others.
pub trait Real:
    sealed::Sealed
    + Elementary
    + Vectors
    + NdFloat
    + FloatConst
    + Default
    + Sum
    + Serialize
    + DeserializeOwned
{
    /// The name used in checkpoints and messages: `"f32"` or `"f64"`.
    const NAME: &'static str;

    /// The nearest value of this type to `x`.
    fn of(x: f64) -> Self;

    /// This value as an `f64`, exactly.
    fn as_f64(self) -> f64;
}

impl Real for f32 {
    const NAME: &'static str = "f32";

    #[inline(always)]
    fn of(x: f64) -> Self {
        x as f32
    }

    #[inline(always)]
    fn as_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    const NAME: &'static str = "f64";

    #[inline(always)]
    fn of(x: f64) -> Self {
        x
    }

    #[inline(always)]
    fn as_f64(self) -> f64 {
        self
    }
}
