//! Zachary's karate club.

use super::{Graph, undirected};

/// The friends of each member that have a lower number; members are numbered from 0 (Zachary counts from 1).
const FRIENDS: [&[u32]; 34] = [
    &[],
    &[0],
    &[0, 1],
    &[0, 1, 2],
    &[0],
    &[0],
    &[0, 4, 5],
    &[0, 1, 2, 3],
    &[0, 2],
    &[2],
    &[0, 4, 5],
    &[0],
    &[0, 3],
    &[0, 1, 2, 3],
    &[],
    &[],
    &[5, 6],
    &[0, 1],
    &[],
    &[0, 1],
    &[],
    &[0, 1],
    &[],
    &[],
    &[],
    &[23, 24],
    &[],
    &[2, 23, 24],
    &[2],
    &[23, 26],
    &[1, 8],
    &[0, 24, 25, 28],
    &[2, 8, 14, 15, 18, 20, 22, 23, 29, 30, 31],
    &[
        8, 9, 13, 14, 15, 18, 19, 20, 22, 23, 26, 27, 28, 29, 30, 31, 32,
    ],
];

/// The club each member belonged to after the split: 0 that of the instructor (member 0), 1 that of the
/// officers (whose president is member 33). As in networkx, member 8 counts as 0: he sided with the officers
/// but joined the instructor's club.
pub const KARATE_FACTIONS: [usize; 34] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1,
];

/// Four communities found by modularity, as in Kipf and Welling (ICLR 2017, figure 4) and PyTorch Geometric's
/// `KarateClub`.
pub const KARATE_COMMUNITIES: [usize; 34] = [
    1, 1, 1, 1, 3, 3, 3, 1, 0, 1, 3, 1, 1, 1, 0, 0, 3, 1, 0, 1, 0, 1, 0, 0, 2, 2, 0, 0, 2, 0, 0, 2,
    0, 0,
];

/// The friendships among the 34 members of a karate club, 78 undirected edges (Zachary, "An information flow
/// model for conflict and fission in small groups", Journal of Anthropological Research 33, 1977).
pub fn karate_club() -> Graph {
    let pairs = (0..34).flat_map(|i| FRIENDS[i as usize].iter().map(move |&j| (i, j)));
    undirected(34, pairs.collect())
}
