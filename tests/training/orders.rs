//! The order of examples in batches.

use emmy::train::Batches;

#[test]
fn every_example_is_in_one_batch() {
    for (examples, size) in [(10, 3), (9, 3), (2, 5), (0, 1)] {
        let batches = Batches::new(examples, size).shuffled();
        let found = batches.of(3);
        assert_eq!(found.len(), examples.div_ceil(size));
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
