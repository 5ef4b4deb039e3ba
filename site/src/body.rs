//! What becomes of a file.

use crate::problem::Problem;
use std::collections::BTreeSet;

/// What stands in the frame of a page, and what others must know of it.
#[derive(Default)]
pub struct Body {
    pub title: String,
    /// The first sentences, without markup.
    pub description: String,
    pub html: String,
    pub anchors: BTreeSet<String>,
    pub headings: Vec<Heading>,
    /// What the search finds.
    pub sections: Vec<Section>,
    pub links: Vec<Link>,
    pub problems: Vec<Problem>,
}

pub struct Heading {
    pub level: usize,
    pub id: String,
    pub text: String,
}

/// A heading and the text below it.
#[derive(Default)]
pub struct Section {
    pub id: String,
    pub heading: String,
    pub text: String,
}

/// A link to a file of the repository.
pub struct Link {
    pub line: usize,
    pub path: String,
    pub anchor: Option<String>,
}
