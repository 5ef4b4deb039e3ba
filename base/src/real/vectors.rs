//! The vectors of a processor, for loops whose sums must stay in its registers.

use pulp::Simd;

/// The operations of `S` on its vectors of this type of numbers.
pub trait Vectors: Copy {
    /// A vector.
    type Vector<S: Simd>: Copy;

    /// Numbers per vector.
    fn lanes<S: Simd>() -> usize {
        size_of::<Self::Vector<S>>() / size_of::<Self>()
    }

    /// x in every place.
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;

    /// a + b.
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

    /// a b + c, rounded once where the processor can.
    fn multiply_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;

    /// The whole vectors of a slice, from its begin.
    fn vectors<S: Simd>(x: &[Self]) -> &[Self::Vector<S>];

    /// The same, to be written.
    fn vectors_mut<S: Simd>(x: &mut [Self]) -> &mut [Self::Vector<S>];
}

/// The same text for both types, whose operations have names of their own.
macro_rules! vectors {
    ($type:ty, $vector:ident, $splat:ident, $add:ident, $multiply_add:ident, $view:ident, $view_mut:ident) => {
        impl Vectors for $type {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
                simd.$splat(x)
            }

            #[inline(always)]
            fn plus<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }

            #[inline(always)]
            fn multiply_add<S: Simd>(
                simd: S,
                a: S::$vector,
                b: S::$vector,
                c: S::$vector,
            ) -> S::$vector {
                simd.$multiply_add(a, b, c)
            }

            #[inline(always)]
            fn vectors<S: Simd>(x: &[Self]) -> &[S::$vector] {
                S::$view(x).0
            }

            #[inline(always)]
            fn vectors_mut<S: Simd>(x: &mut [Self]) -> &mut [S::$vector] {
                S::$view_mut(x).0
            }
        }
    };
}

vectors!(
    f32,
    f32s,
    splat_f32s,
    add_f32s,
    mul_add_e_f32s,
    as_simd_f32s,
    as_mut_simd_f32s
);
vectors!(
    f64,
    f64s,
    splat_f64s,
    add_f64s,
    mul_add_e_f64s,
    as_simd_f64s,
    as_mut_simd_f64s
);
