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

    /// The number of batches per epoch.
    pub fn per_epoch(&self) -> usize {
        self.examples.div_ceil(self.size)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_in_one_batch() {
        for (examples, size) in [(10, 3), (9, 3), (2, 5), (0, 1)] {
            let batches = Batches::new(examples, size).shuffled();
            let found = batches.of(3);
            assert_eq!(found.len(), batches.per_epoch());
            assert!(found.iter().rev().skip(1).all(|b| b.len() == size));
            let mut all = found.concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..examples));
        }
    }

    #[test]
    fn the_order_follows_from_the_seed() {
        let batches = Batches::new(50, 8).shuffled();
        assert_eq!(batches.of(1), batches.of(1));
        assert_ne!(batches.of(1), batches.of(2));
        // How often each example comes first; 5 000 draws of 10 have a standard deviation of 21 around 500.
        let mut first = [0; 10];
        for seed in 0..5000 {
            first[Batches::new(10, 1).shuffled().of(seed)[0][0]] += 1;
        }
        assert!(first.iter().all(|n| (400..600).contains(n)), "{first:?}");
    }

    #[test]
    #[should_panic(expected = "batches: 0 examples per batch")]
    fn a_batch_has_an_example() {
        let _ = Batches::new(3, 0);
    }
}
