//! The generated data set like Cora: exact numbers, statistics, and how well its classes can be
//! distinguished.

use emmy::data::{Dataset, cora_like};
use emmy::sparse::Csr;

const CLASS_SIZES: [usize; 7] = [351, 217, 418, 818, 426, 298, 180];

#[test]
fn coras_figures_are_met_exactly_for_every_seed() {
    for seed in 0..10 {
        let set = cora_like(seed);
        assert_eq!(
            (set.nodes(), set.feature_count(), set.classes),
            (2708, 1433, 7)
        );
        assert_eq!(set.graph.edges(), 2 * 5278);
        assert!(set.graph.is_symmetric() && set.graph.self_loops() == 0);
        assert!(set.graph.isolated().is_empty());
        assert_eq!(set.class_sizes(), CLASS_SIZES);
        assert_eq!(set.features.pattern.nnz(), 49216);
        assert!(set.features.values.iter().all(|&x| x == 1.0));
        assert_eq!(set.graph.edge_homophily(&set.labels), Some(4275.0 / 5278.0));
        let split = &set.splits[0];
        assert_eq!(split.counts(), [140, 500, 1000]);
        let mut sizes = [0; 7];
        (0..2708)
            .filter(|&i| split.train[i])
            .for_each(|i| sizes[set.labels[i]] += 1);
        assert_eq!(sizes, [20; 7]);
    }
}

#[test]
fn degrees_and_words_are_spread_as_in_cora() {
    for seed in 0..10 {
        let set = cora_like(seed);
        let degrees = set.graph.in_degrees();
        let max = degrees.iter().copied().max().unwrap();
        assert!((80..=220).contains(&max), "{max}, Cora 168");
        let ones = degrees.iter().filter(|&&d| d == 1).count();
        assert!((350..=600).contains(&ones), "{ones}, Cora 485");
        let above_ten = degrees.iter().filter(|&&d| d > 10).count();
        assert!((70..=140).contains(&above_ten), "{above_ten}, Cora 96");
        // Most papers have about twenty words, none more than thirty.
        let x = &set.features.pattern;
        let lengths: Vec<usize> = (0..2708).map(|i| x.row(i).len()).collect();
        assert!(lengths.iter().all(|l| (1..=30).contains(l)));
        let usual = lengths.iter().filter(|l| (16..=25).contains(*l)).count();
        assert!((1900..=2300).contains(&usual), "{usual}");
        // A few words are in hundreds of papers, half of the words in fewer than thirty.
        let mut frequency = vec![0; 1433];
        x.indices().iter().for_each(|&w| frequency[w as usize] += 1);
        frequency.sort_unstable();
        assert!(
            (400..=1500).contains(&frequency[1432]),
            "{}",
            frequency[1432]
        );
        assert!(
            (10..=25).contains(&frequency[716]),
            "{}, Cora 15",
            frequency[716]
        );
    }
}

#[test]
fn the_seed_decides_everything() {
    assert_eq!(cora_like(3), cora_like(3));
    let (a, b) = (cora_like(3), cora_like(4));
    assert_ne!(a.graph, b.graph);
    assert_ne!(a.features, b.features);
    assert_ne!(a.labels, b.labels);
}

/// The product a x, dense of width d.
fn propagate(a: &Csr<f64>, x: &[f64], d: usize) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    for (i, row) in out.chunks_mut(d).enumerate() {
        for e in a.pattern.row(i) {
            let j = a.pattern.indices()[e] as usize;
            for (o, x) in row.iter_mut().zip(&x[j * d..(j + 1) * d]) {
                *o += a.values[[e]] * x;
            }
        }
    }
    out
}

/// Test accuracy if every node gets the class whose mean of training rows has the smallest angle to
/// the row of the node.
fn nearest_mean(set: &Dataset, x: &[f64]) -> f64 {
    let d = set.feature_count();
    let row = |i: usize| &x[i * d..(i + 1) * d];
    let split = &set.splits[0];
    let mut means = vec![vec![0.0; d]; set.classes];
    for i in (0..set.nodes()).filter(|&i| split.train[i]) {
        for (m, x) in means[set.labels[i]].iter_mut().zip(row(i)) {
            *m += x;
        }
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let norms: Vec<f64> = means.iter().map(|m| dot(m, m).sqrt()).collect();
    let score = |i: usize, c: usize| dot(&means[c], row(i)) / norms[c];
    let right = |&i: &usize| {
        let best = (0..set.classes).max_by(|&a, &b| score(i, a).total_cmp(&score(i, b)));
        best == Some(set.labels[i])
    };
    let tested: Vec<usize> = (0..set.nodes()).filter(|&i| split.test[i]).collect();
    tested.iter().filter(|i| right(i)).count() as f64 / tested.len() as f64
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn the_graph_tells_more_than_the_words() {
    let seeds = 2;
    let (mut words, mut two) = (0.0, 0.0);
    for seed in 0..seeds {
        let set = cora_like(seed);
        let d = set.feature_count();
        let x = set.normalized_features::<f64>().to_dense();
        let x: Vec<f64> = x.iter().copied().collect();
        let a = set.graph.gcn_norm::<f64>();
        words += nearest_mean(&set, &x) / seeds as f64;
        let x = propagate(&a, &propagate(&a, &x, d), d);
        two += nearest_mean(&set, &x) / seeds as f64;
    }
    println!("words alone {words:.3}, averaged over two steps {two:.3}");
    assert!((0.48..0.62).contains(&words), "{words}");
    assert!((0.77..0.86).contains(&two), "{two}");
}
