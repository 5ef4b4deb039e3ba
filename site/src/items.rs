//! Where the types of the reading path are defined, so that prose beside code leads from one to the next.

use crate::contents::Contents;
use crate::paths::Root;
use crate::problem::Problems;
use std::collections::BTreeMap;

/// Files and lines (from 1) by the names of types; none where two have the same name.
#[derive(Default)]
pub struct Items(BTreeMap<String, Option<(String, usize)>>);

impl Items {
    pub fn read(root: &Root, contents: &Contents) -> Result<Self, Problems> {
        let mut items = Self::default();
        for step in contents.reading() {
            for (n, line) in root.read(&step.path)?.lines().enumerate() {
                if let Some(name) = defined(line) {
                    let place = (step.path.clone(), n + 1);
                    let known = items.0.entry(name.into());
                    known
                        .and_modify(|place| *place = None)
                        .or_insert(Some(place));
                }
            }
        }
        Ok(items)
    }

    /// The type that a link as `crate::nn::GatConv` or `Tape::record` names.
    pub fn find(&self, link: &str) -> Option<&(String, usize)> {
        let mut parts = link.trim_matches('`').rsplit("::");
        let name = parts.find(|part| part.starts_with(char::is_uppercase))?;
        self.0.get(name)?.as_ref()
    }
}

/// The type that is defined in this line.
fn defined(line: &str) -> Option<&str> {
    let item = line.strip_prefix("pub ")?;
    let words = ["struct ", "enum ", "trait ", "type "];
    let name = words.iter().find_map(|word| item.strip_prefix(word))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&name[..end.unwrap_or(name.len())])
}
