//! Data sets as values, and the table of those that the library knows.

use super::{Dataset, Files, Options, cora_like, heterophilic, karate, locate, ogb, planetoid};
use crate::error::{Error, Result};
use crate::real::Real;
use crate::sparse::Csr;
use std::fmt;
use std::path::{Path, PathBuf};

/// A data set before it is loaded: its names, its files and their reader.
///
/// [`ALL`] are those that the library knows, by their names in [`load`](super::load). A set of your own is
/// another value, which is looked for in the same places:
///
/// ```
/// use emmy::data::{Files, Options, Source, csv};
///
/// const CLUB: Source = Source {
///     name: "club",
///     title: "The club",
///     size: [3, 4],
///     heterophilic: false,
///     counts_words: false,
///     files: Files {
///         names: &["NAME-edges.csv", "NAME-nodes.csv"],
///         folders: &["NAME", ""],
///         address: "https://example.org/club/",
///     },
///     read: |_, folder, _| {
///         let (edges, nodes) = (folder.join("club-edges.csv"), folder.join("club-nodes.csv"));
///         csv::load(&edges, &nodes, &csv::Options::default())
///     },
/// };
///
/// let folder = tempfile::tempdir().unwrap();
/// let options = Options { folder: Some(folder.path().to_owned()), ..Options::default() };
/// let message = CLUB.load(&options).unwrap_err().to_string();
/// assert!(message.contains("https://example.org/club/club-edges.csv"), "{message}");
///
/// let file = |part: &str| folder.path().join(format!("club-{part}.csv"));
/// std::fs::write(file("edges"), "from,to\nada,bob\nbob,eve\n").unwrap();
/// std::fs::write(file("nodes"), "name,age,label\nada,36,yes\nbob,41,no\neve,29,yes\n").unwrap();
/// assert_eq!(CLUB.load(&options)?.nodes(), 3);
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # A new set in the library
/// Its reader is a file in `data/src/data`, with its [`Files`]; the set itself is a row of [`ALL`]. Programs
/// list the sets of this table under `--dataset`.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// The name as it is typed and as it occurs in file names: `cora`, `cora-like`.
    pub name: &'static str,
    /// The name as it is written in prose: `Cora`, `CiteSeer`.
    pub title: &'static str,
    /// The numbers of nodes, and of edges counted in both directions: for estimates before any data are
    /// loaded.
    pub size: [u64; 2],
    /// Whether neighbours rarely share a class.
    pub heterophilic: bool,
    /// Whether features say which words a text has. Networks are then trained on rows that sum to one
    /// ([`Dataset::normalized_features`]), as in the papers.
    pub counts_words: bool,
    /// Its files; [`Files::NONE`] for a set that needs none.
    pub files: Files,
    /// Reads it from the folder that has the files.
    pub read: fn(&Source, &Path, &Options) -> Result<Dataset>,
}

impl Source {
    /// Looks for the files in the places that [`locate`] names, and reads them.
    ///
    /// # Errors
    /// [`Error::NotFound`] if they are in none of the places; the errors of [`read`](Self::read).
    pub fn load(&self, options: &Options) -> Result<Dataset> {
        let roots = locate::roots(options.folder.as_deref());
        let folder = match self.files.names.is_empty() {
            true => PathBuf::new(),
            false => {
                let what = format!("the data set {}", self.title);
                self.files.find(&roots, &what, self.name, self.title)?
            }
        };
        (self.read)(self, &folder, options)
    }

    /// A Planetoid set, [`planetoid`].
    const fn planetoid(name: &'static str, title: &'static str, size: [u64; 2]) -> Self {
        Self {
            name,
            title,
            size,
            heterophilic: false,
            counts_words: true,
            files: planetoid::FILES,
            read: |set, folder, _| planetoid::load(folder, set.name),
        }
    }

    /// A set of [`heterophilic`].
    const fn heterophilic(name: &'static str, title: &'static str, size: [u64; 2]) -> Self {
        Self {
            name,
            title,
            size,
            heterophilic: true,
            counts_words: false,
            files: heterophilic::FILES,
            read: |set, folder, options| heterophilic::load(folder, set.name, options.direction),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// All data sets of the library, in the order in which programs list them.
pub static ALL: [Source; 12] = [
    Source::planetoid("cora", "Cora", [2_708, 10_556]),
    Source::planetoid("citeseer", "CiteSeer", [3_327, 9_104]),
    Source::planetoid("pubmed", "PubMed", [19_717, 88_648]),
    Source::heterophilic("chameleon", "Chameleon", [2_277, 62_742]),
    Source::heterophilic("squirrel", "Squirrel", [5_201, 396_706]),
    Source::heterophilic("actor", "Actor", [7_600, 53_318]),
    Source::heterophilic("cornell", "Cornell", [183, 554]),
    Source::heterophilic("texas", "Texas", [183, 558]),
    Source::heterophilic("wisconsin", "Wisconsin", [251, 900]),
    Source {
        name: "ogbn-arxiv",
        title: "ogbn-arxiv",
        size: [169_343, 2_315_598],
        heterophilic: false,
        counts_words: false,
        files: ogb::ARXIV,
        read: |set, folder, options| {
            let found = ogb::load(folder, Some("time"), options.direction)?;
            let name = set.name.to_owned();
            Ok(Dataset { name, ..found })
        },
    },
    Source {
        name: "cora-like",
        title: "cora-like",
        size: [2_708, 10_556],
        heterophilic: false,
        counts_words: true,
        files: Files::NONE,
        read: |_, _, options| Ok(cora_like(options.seed)),
    },
    Source {
        name: "karate",
        title: "karate club",
        size: [34, 156],
        heterophilic: false,
        counts_words: false,
        files: Files::NONE,
        read: |_, _, _| Ok(karate()),
    },
];

/// The set of the library with this name.
///
/// # Errors
/// If there is none; the message lists all names.
pub fn find(name: &str) -> Result<&'static Source> {
    ALL.iter().find(|set| set.name == name).ok_or_else(|| {
        let all = ALL.each_ref().map(|set| set.name).join(", ");
        Error::invalid("data set", format!("one of {all}"), format!("{name:?}"))
    })
}

/// The features on which networks are trained in the papers: rows that sum to one
/// ([`Dataset::normalized_features`]) if the name is that of a set whose features [count
/// words](Source::counts_words), else features as published.
///
/// ```
/// use emmy::data;
/// let club = data::karate(); // its features are one unit vector per node
/// assert_eq!(data::features::<f32>(&club), club.raw_features());
/// ```
pub fn features<F: Real>(set: &Dataset) -> Csr<F> {
    match find(&set.name).is_ok_and(|source| source.counts_words) {
        true => set.normalized_features(),
        false => set.raw_features(),
    }
}
