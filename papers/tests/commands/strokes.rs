//! The generated images of `vision`.

use papers::vision::strokes::{SHAPES, strokes};

/// Rows and columns of an image.
const SIDE: usize = 28;

#[test]
fn the_same_seed_draws_the_same_images() {
    assert_eq!(strokes(20, 3), strokes(20, 3));
    assert_ne!(strokes(20, 3), strokes(20, 4));
}

#[test]
fn ten_classes_are_balanced_and_two_images_of_a_class_differ() {
    let images = strokes(1000, 1);
    let mut counts = [0; 10];
    for &label in &images.labels {
        counts[usize::from(label)] += 1;
    }
    assert_eq!(counts, [100; 10]);
    let size = SIDE * SIDE;
    let mut all: Vec<&[u8]> = images.pixels.chunks(size).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 1000);
    // Ink in every image, and paper.
    for image in all {
        let dark = image.iter().filter(|&&p| p > 200).count();
        assert!((20..size / 2).contains(&dark), "{dark}");
    }
}

/// The mean image of a class is nearest to most other images of that class: it can be learnt, and not
/// from single pixels.
#[test]
fn shapes_can_be_told_apart() {
    let (known, asked) = (
        strokes(2000, 1).rows::<f64>(),
        strokes(500, 2).rows::<f64>(),
    );
    let classes = SHAPES.len();
    let mut means = vec![vec![0.0; SIDE * SIDE]; classes];
    for (k, row) in known.outer_iter().enumerate() {
        for (mean, x) in means[k % classes].iter_mut().zip(row) {
            *mean += x / 200.0;
        }
    }
    let right = asked.outer_iter().enumerate().filter(|(k, row)| {
        let far =
            |mean: &Vec<f64>| -> f64 { mean.iter().zip(row).map(|(m, x)| (m - x).powi(2)).sum() };
        let nearest = (0..classes).min_by(|&a, &b| far(&means[a]).total_cmp(&far(&means[b])));
        nearest == Some(k % classes)
    });
    let share = right.count() as f64 / 500.0;
    assert!((0.35..0.95).contains(&share), "{share}");
}
