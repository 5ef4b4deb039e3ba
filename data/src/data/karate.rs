//! Zachary's karate club as a data set.

use super::{Dataset, Split};
use crate::graph::generators::{KARATE_FACTIONS, karate_club};
use crate::sparse::{Csr, Pattern};

/// One member of each faction whose label is known: the instructor and the president.
const TRAIN: [usize; 2] = [0, 33];

/// The validation nodes, four members of each faction; the other 24 are test nodes.
const VAL: [usize; 8] = [1, 5, 12, 16, 9, 24, 27, 32];

/// The karate club: 34 members, identity features (each member is its own word), the two factions of the
/// split as classes.
///
/// The one split trains on the two leaders, members 0 and 33, in the spirit of Kipf and Welling (ICLR 2017,
/// appendix A), who label one node per class; it validates on 8 members, four per faction, and tests on the
/// other 24.
pub fn karate() -> Dataset {
    let n = KARATE_FACTIONS.len();
    let identity = Pattern::new(n, n, (0..=n).collect(), (0..n as u32).collect())
        .unwrap_or_else(|e| panic!("karate: {e}"));
    let rest = (0..n).filter(|i| !TRAIN.contains(i) && !VAL.contains(i));
    let split = Split::from_indices(n, &TRAIN, &VAL, &rest.collect::<Vec<_>>());
    Dataset::new(
        "karate",
        karate_club(),
        Csr::new(identity, vec![1.0; n]),
        KARATE_FACTIONS.to_vec(),
        2,
        vec![split],
    )
    .unwrap_or_else(|e| panic!("{e}"))
}
