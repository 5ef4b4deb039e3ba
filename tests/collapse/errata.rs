//! E11 and E21: numbers that the paper prints.

use super::files::published;
use emmy::data::{Options, Split, load};

/// The scores of a row of Table 1 and the average printed beside them.
const TABLE_1: [(&str, [f64; 9], f64); 6] = [
    (
        "BERT-base",
        [
            55.28, 92.89, 88.96, 88.24, 88.61, 84.65, 84.61, 91.51, 68.59,
        ],
        82.59,
    ),
    (
        "BERT + ContraNorm",
        [
            58.83, 93.12, 89.49, 88.30, 88.66, 84.87, 84.66, 91.78, 70.76,
        ],
        83.39,
    ),
    (
        "BERT + ContraNorm*",
        [
            59.57, 93.23, 89.97, 88.30, 88.93, 84.87, 84.67, 91.78, 70.76,
        ],
        83.54,
    ),
    (
        "ALBERT-base",
        [
            57.35, 93.69, 92.09, 87.23, 90.54, 84.56, 84.37, 90.90, 76.53,
        ],
        83.74,
    ),
    (
        "ALBERT + ContraNorm",
        [
            58.51, 92.89, 92.86, 87.45, 90.56, 84.33, 84.62, 91.76, 79.06,
        ],
        84.67,
    ),
    (
        "ALBERT + ContraNorm*",
        [
            58.76, 93.23, 92.89, 87.67, 90.72, 84.69, 84.95, 92.28, 79.06,
        ],
        84.92,
    ),
];

fn percent(part: f64) -> f64 {
    (part * 100.0).round() / 100.0
}

/// E11: two averages of Table 1 are not those of their rows. ALBERT gains 0.53, where 0.93 is printed.
#[test]
fn averages_of_table_1() {
    let mean = |scores: &[f64; 9]| percent(scores.iter().sum::<f64>() / 9.0);
    let wrong: Vec<(&str, f64)> = TABLE_1
        .iter()
        .filter(|(_, scores, printed)| (mean(scores) - printed).abs() > 1e-9)
        .map(|(name, scores, _)| (*name, mean(scores)))
        .collect();
    assert_eq!(
        wrong,
        [("BERT + ContraNorm*", 83.56), ("ALBERT-base", 84.14)]
    );
    let [.., base, with, _] = TABLE_1;
    assert_eq!(percent(mean(&with.1) - mean(&base.1)), 0.53);
    assert_eq!(percent(with.2 - base.2), 0.93);
}

/// Whether some count of `nodes` test nodes gives the printed accuracy; a cell "± 0.00" requires this.
fn is_a_share(accuracy: f64, nodes: usize) -> bool {
    (0..=nodes).any(|k| (percent(100.0 * k as f64 / nodes as f64) - accuracy).abs() < 1e-9)
}

/// E21: the cells of Table 3 with ± 0.00 are fractions of the test sets of the published code, not of a fifth
/// of the nodes of Cora and CiteSeer. 23.37 % (Chameleon, GCN, 32 layers) is not a multiple of 1/456, and not
/// a fraction of a fifth of the nodes either; 22.37 % is a multiple of 1/456.
#[test]
fn constant_predictors_of_table_3() {
    let shares = [
        (7.79, 161, 2068),
        (19.65, 532, 2707),
        (22.37, 102, 456),
        (19.31, 201, 1041),
    ];
    for (accuracy, count, nodes) in shares {
        assert_eq!(
            percent(100.0 * f64::from(count) / f64::from(nodes)),
            accuracy
        );
    }
    for (accuracy, nodes) in [(7.79, 2708), (19.65, 3327)] {
        let fifth = nodes as f64 / 5.0;
        for part in [fifth.floor() as usize, fifth.ceil() as usize] {
            assert!(!is_a_share(accuracy, part), "{accuracy} of {part}");
        }
    }
    assert!(is_a_share(22.37, 456) && !is_a_share(23.37, 456) && !is_a_share(23.37, 455));
}

/// E21 on the data: which nodes these are, and that one class of them has this share.
#[test]
fn test_sets_of_table_3() {
    let Some(folder) = published() else { return };
    let options = Options {
        folder: Some(folder),
        ..Options::default()
    };
    let outside = |split: &Split| -> Vec<bool> {
        split
            .train
            .iter()
            .zip(&split.val)
            .map(|(&t, &v)| !t && !v)
            .collect()
    };
    let sets = [
        ("cora", true, 161, 2068),
        ("citeseer", true, 532, 2707),
        ("chameleon", false, 102, 456),
        ("squirrel", false, 201, 1041),
    ];
    for (name, public, count, nodes) in sets {
        let set = load(name, &options).expect("published data");
        let split = set.split(0).expect("a split");
        let test = if public {
            outside(split)
        } else {
            split.test.clone()
        };
        assert_eq!(test.iter().filter(|&&t| t).count(), nodes, "{name:?}");
        let mut sizes = vec![0; set.classes];
        for (label, _) in set.labels.iter().zip(&test).filter(|(_, t)| **t) {
            sizes[*label] += 1;
        }
        assert!(sizes.contains(&count), "{name:?}: {sizes:?}");
    }
}
