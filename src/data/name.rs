//! The names of the data sets.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A data set that [`load`](super::load) knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Name {
    /// 2708 papers on machine learning in 7 classes.
    Cora,
    /// 3327 papers in 6 classes.
    CiteSeer,
    /// 19 717 papers on diabetes in 3 classes.
    PubMed,
    /// 2277 pages of Wikipedia.
    Chameleon,
    /// 5201 pages of Wikipedia.
    Squirrel,
    /// 7600 actors, joined when they occur on one page.
    Actor,
    /// 183 web pages of a university.
    Cornell,
    /// 183 web pages of a university.
    Texas,
    /// 251 web pages of a university.
    Wisconsin,
    /// A generated set with Cora's figures.
    CoraLike,
    /// Zachary's karate club, 34 members in two factions.
    Karate,
}

impl Name {
    /// All data sets.
    pub const ALL: [Self; 11] = [
        Self::Cora,
        Self::CiteSeer,
        Self::PubMed,
        Self::Chameleon,
        Self::Squirrel,
        Self::Actor,
        Self::Cornell,
        Self::Texas,
        Self::Wisconsin,
        Self::CoraLike,
        Self::Karate,
    ];

    /// Whether it is one of the six sets whose neighbours rarely share a class, published with ten splits.
    pub fn is_heterophilic(self) -> bool {
        matches!(
            self,
            Self::Chameleon
                | Self::Squirrel
                | Self::Actor
                | Self::Cornell
                | Self::Texas
                | Self::Wisconsin
        )
    }

    /// The name as it is typed and as it occurs in file names: `cora`, `cora-like`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cora => "cora",
            Self::CiteSeer => "citeseer",
            Self::PubMed => "pubmed",
            Self::Chameleon => "chameleon",
            Self::Squirrel => "squirrel",
            Self::Actor => "actor",
            Self::Cornell => "cornell",
            Self::Texas => "texas",
            Self::Wisconsin => "wisconsin",
            Self::CoraLike => "cora-like",
            Self::Karate => "karate",
        }
    }

    /// The name as it is written in prose: `Cora`, `CiteSeer`.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cora => "Cora",
            Self::CiteSeer => "CiteSeer",
            Self::PubMed => "PubMed",
            Self::Chameleon => "Chameleon",
            Self::Squirrel => "Squirrel",
            Self::Actor => "Actor",
            Self::Cornell => "Cornell",
            Self::Texas => "Texas",
            Self::Wisconsin => "Wisconsin",
            Self::CoraLike => "cora-like",
            Self::Karate => "karate club",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = Self::ALL.into_iter().find(|name| name.as_str() == text);
        name.ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid("data set", format!("one of {all}"), format!("{text:?}"))
        })
    }
}
