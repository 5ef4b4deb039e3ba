//! The book: how this library works, chapter by chapter.
//!
//! In reading order:
//!
//! 1. [The engine](engine): a computation is a list, and its derivative one loop backwards over it.
//! 2. [Layers, passes, training](layers): a layer, a model, a loop of your own, the trainer, saving.
//! 3. [GCN and GAT from scratch](graphs): two graph layers on five nodes, by hand and by the library.
//! 4. [Attention](attention): queries, keys and values, masks, distances, attention along edges.
//! 5. [Conservation](conservation): symmetries of a network, the laws that follow, how they are read.
//! 6. [Balanced initialisation](balance): what a law says about training a deep network.
//! 7. [Lipschitz constants](lipschitz): how far an output can move, as a proven interval.
//! 8. [Collapse](collapse): why the rows of a deep network become alike, and how to measure it.
//! 9. [Hyper-gradients](hypergradients): the derivative of a training with respect to its settings.
//! 10. [Your own model](own_model): your own layer, data and weights, with all that the library reads.
//! 11. [Testing your own model](testing): your own layer tested against the theorems in ten lines.
//!
//! An appendix is [Weights in and out](weights). Figures, the evidence behind the chapters, and a path
//! through the source are in the repository, in `docs/`.

// The compiler of the library does not see this file: it is for rustdoc, and for the tests of listings.

/// A page per chapter: a picture of `docs/figures`, its summary, its name and that of its file in `docs/`.
///
/// A chapter links to another by a label, `[text][conservation]`, which the end of its file defines for
/// readers of the repository (`[conservation]: conservation.md`). Here the label is defined before the
/// chapter, as a page of rustdoc; the first definition counts. What has no page here, such as evidence,
/// leads to the contents. A page of rustdoc can show no file: the pictures of the text are hidden, and
/// one is written into the page, in front of the text. For tests the chapter stands alone, so that they
/// are named by its file and lines.
macro_rules! chapters {
    ($($(($picture:literal))? $summary:literal $name:ident)*) => { $(
        #[cfg_attr(not(doctest), doc = $summary)]
        #[cfg_attr(not(doctest), doc = "

<style>.docblock img { display: none } .docblock svg { max-width: 100%; height: auto }</style>

[contents]: crate::book
[reading]: crate::book
[errata]: crate::book
[evidence]: crate::book
[evidence_angles]: crate::book
[evidence_derivation]: crate::book
[evidence_joint]: crate::book
[evidence_operations]: crate::book
[evidence_pairs]: crate::book
[evidence_program]: crate::book
[evidence_rotations]: crate::book
[evidence_search]: crate::book
[evidence_steps]: crate::book
[evidence_transformers]: crate::book
[paper]: crate::book
[proofs]: crate::book
[paper_transformers]: crate::book
[engine]: crate::book::engine
[layers]: crate::book::layers
[graphs]: crate::book::graphs
[attention]: crate::book::attention
[conservation]: crate::book::conservation
[balance]: crate::book::balance
[lipschitz]: crate::book::lipschitz
[collapse]: crate::book::collapse
[hypergradients]: crate::book::hypergradients
[own_model]: crate::book::own_model
[testing]: crate::book::testing
[weights]: crate::book::weights

")]
        $(
            #[cfg_attr(not(doctest), doc = "<div>")]
            #[cfg_attr(not(doctest), doc = include_str!(concat!("../docs/figures/", $picture, ".svg")))]
            #[cfg_attr(not(doctest), doc = "</div>")]
            #[cfg_attr(not(doctest), doc = "")]
        )?
        #[doc = include_str!(concat!("../docs/", stringify!($name), ".md"))]
        // Indices of formulas, W[j,:], look like links. `tests/readme/links.rs` checks the labels.
        #[allow(rustdoc::broken_intra_doc_links)]
        pub mod $name {}
    )* }
}

chapters! {
    ("engine") "A computation is a list, and its derivative one loop backwards over it." engine
    ("layers") "A layer, a model, a loop of your own, the trainer, saving." layers
    ("graphs") "Two graph layers on five nodes, by hand and by the library." graphs
    ("attention-five-nodes") "Queries, keys and values, masks, distances, attention along edges." attention
    ("conservation-neuron") "Symmetries of a network, the laws that follow, how they are read." conservation
    ("balance-norms") "What a law says about training a deep network." balance
    ("lipschitz-interval") "How far an output can move, as a proven interval." lipschitz
    "Why the rows of a deep network become alike, and how to measure it." collapse
    ("hypergradients") "The derivative of a training with respect to its settings." hypergradients
    ("own_model") "Your own layer, data and weights, with all that the library reads." own_model
    ("testing") "Your own layer tested against the theorems in ten lines." testing
    "Files that PyTorch reads and writes." weights
}

/// Listings of documents that are no chapters.
#[cfg(doctest)]
mod repository {
    #[doc = include_str!("package.md")]
    mod package {}

    #[doc = include_str!("../README.md")]
    mod readme {}

    #[doc = include_str!("../docs/evidence/conservation.md")]
    mod evidence_conservation {}
}
