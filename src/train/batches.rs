//! Examples in batches.

use crate::init;
use rand::seq::SliceRandom;

/// The examples 0, 1, .. n − 1 in batches of one size, for [`Task::batches`](super::Task::batches). Every
/// example is in one batch; the last batch is smaller if the size does not divide n.
///
/// ```
/// use emmy::train::Batches;
/// assert_eq!(Batches::new(5, 2).of(0), [vec![0, 1], vec![2, 3], vec![4]]);
/// let shuffled = Batches::new(5, 2).shuffled();
/// assert_eq!(shuffled.of(7), shuffled.of(7));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batches {
    examples: usize,
    size: usize,
    shuffled: bool,
}

impl Batches {
    /// The examples 0, 1, .. `examples` − 1 in their order, `size` per batch.
    ///
    /// # Panics
    /// If `size` is 0.
    #[track_caller]
    pub fn new(examples: usize, size: usize) -> Self {
        assert!(size > 0, "batches: 0 examples per batch");
        Self {
            examples,
            size,
            shuffled: false,
        }
    }

    /// The same in an order drawn anew in every epoch; all orders are equally likely.
    pub fn shuffled(self) -> Self {
        Self {
            shuffled: true,
            ..self
        }
    }

    /// The batches of an epoch with this seed: same seed, same batches.
    pub fn of(&self, seed: u64) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.examples).collect();
        if self.shuffled {
            order.shuffle(&mut init::rng(seed));
        }
        order.chunks(self.size).map(<[usize]>::to_vec).collect()
    }
}
