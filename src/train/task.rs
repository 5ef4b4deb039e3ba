//! What is to be learnt.

use crate::data::Split;
use crate::error::{Error, Result};

/// What is to be learnt: the classes of nodes.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// The class of each node.
    pub labels: &'a [usize],
    /// Which nodes train, validate, test.
    pub split: &'a Split,
}

impl Task<'_> {
    /// Whether the split fits the labels.
    ///
    /// # Errors
    /// If a mask has not a flag for each label, or no node trains or validates.
    pub fn check(&self) -> Result<()> {
        let Self { labels, split } = self;
        for (name, mask) in [
            ("train", &split.train),
            ("val", &split.val),
            ("test", &split.test),
        ] {
            if mask.len() != labels.len() {
                let found = format!("{} for {} labels", mask.len(), labels.len());
                return Err(Error::invalid(
                    format!("split: {name}"),
                    "one flag a label",
                    found,
                ));
            }
            if name != "test" && !mask.contains(&true) {
                return Err(Error::invalid(
                    format!("split: {name}"),
                    "at least one node",
                    "none",
                ));
            }
        }
        Ok(())
    }
}
