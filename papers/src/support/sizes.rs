//! The sizes of the data sets, for estimates of work before any data are loaded.

use emmy::data::Name;

/// Nodes, and edges counted in both directions, approximately; the sizes of Cora for an unknown name.
pub fn of(dataset: &str) -> (u64, u64) {
    match dataset.parse::<Name>() {
        Ok(Name::CiteSeer) => (3_327, 9_104),
        Ok(Name::PubMed) => (19_717, 88_648),
        Ok(Name::Chameleon) => (2_277, 62_792),
        Ok(Name::Squirrel) => (5_201, 396_846),
        Ok(Name::Actor) => (7_600, 53_411),
        Ok(Name::Cornell | Name::Texas) => (183, 560),
        Ok(Name::Wisconsin) => (251, 900),
        Ok(Name::Karate) => (34, 156),
        Ok(Name::Cora | Name::CoraLike) | Err(_) => (2_708, 10_556),
    }
}
