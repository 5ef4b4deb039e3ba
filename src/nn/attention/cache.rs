//! A cache of the keys and values of the tokens so far.

use crate::ops::attention::Qkv;
use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::Axis;

/// The keys and values that an attention layer has computed from the tokens so far. Use one cache per layer
/// and batch of sequences; see [`continued`](super::MultiHeadAttention::continued).
///
/// Two tokens, then one more: the third row is that of a pass over all three.
///
/// ```
/// use emmy::nn::{AttentionConfig, KeyValues, MultiHeadAttention, Pass};
/// use emmy::{Tape, init, ops::attention::Mask};
///
/// let layer = MultiHeadAttention::<f64>::new(AttentionConfig::new(4, 2), &mut init::rng(0))?;
/// let tape = Tape::new();
/// let pass = Pass::eval(&tape, &layer);
/// let x = tape.constant(init::normal(&[3, 4], 1.0, &mut init::rng(1)));
/// let whole = layer.forward(&pass, x, &Mask::causal());
/// let mut cache = KeyValues::new();
/// layer.continued(&pass, x.slice(0, 0..2), &mut cache);
/// let last = layer.continued(&pass, x.slice(0, 2..3), &mut cache);
/// assert_eq!((last.shape(), cache.len()), (vec![1, 4], 3));
/// assert!((last - whole.slice(0, 2..3)).abs().max_all().item() < 1e-12);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct KeyValues<F: Real> {
    /// k, v and β, each with the tokens along the same axis.
    parts: Option<[Tensor<F>; 3]>,
    tokens: usize,
}

impl<F: Real> KeyValues<F> {
    /// No tokens so far.
    pub fn new() -> Self {
        Self {
            parts: None,
            tokens: 0,
        }
    }

    /// The number of tokens so far.
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    /// Adds the keys and values of new tokens; returns k, v and β of all tokens.
    #[track_caller]
    pub(super) fn extend(&mut self, new: Qkv<'_, F>) -> [Tensor<F>; 3] {
        let axis = Axis(new.k.ndim() - 3);
        let beta = new.beta.map_or_else(
            || Tensor::zeros(&new.k.shape()[..axis.index() + 2]),
            |beta| beta.value(),
        );
        let new = [new.k.value(), new.v.value(), beta];
        let count = new[0].len_of(axis);
        let parts = match self.parts.take() {
            None => new,
            Some(old) => {
                let joined = old.iter().zip(&new).map(|(old, new)| {
                    let both = ndarray::concatenate(axis, &[old.view(), new.view()]);
                    both.unwrap_or_else(|_| {
                        let (old, new) = (old.shape(), new.shape());
                        panic!("KeyValues: the tokens so far have shape {old:?}, the new ones {new:?}: they differ in \
                                more than their number")
                    })
                    .into_shared()
                });
                let mut joined = joined.collect::<Vec<_>>().into_iter();
                std::array::from_fn(|_| joined.next().expect("three parts"))
            }
        };
        self.tokens += count;
        self.parts = Some(parts.clone());
        parts
    }
}
