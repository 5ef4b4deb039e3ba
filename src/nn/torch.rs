//! The names that the tensors of a model have in PyTorch, as `module!` declares them.

/// How PyTorch names a field, and how it lays out the tensors in it.
///
/// [`module!`](crate::module) makes it from the text that follows a field: nothing, `as "pattern"` or
/// `in "pattern"`, each pattern with axes or without. Without a pattern the name is that of the field.
///
/// A name in PyTorch is, like ours, the path of fields that leads to a tensor, joined with dots. A pattern
/// replaces the name of one field in that path:
///
/// | pattern | a tensor `weight` inside is called |
/// |---|---|
/// | `lin` | `lin.weight` |
/// | `in_proj_*` | `in_proj_weight`: the star stands for the rest of the path, and no dot is written around it |
/// | `*_reverse` | `weight_reverse`: endings follow each other in the order of the path |
/// | `*` | `weight`: the field is left out of the name |
/// | `*_l#`, of a list | `weight_l0`, `weight_l1`, ..: `#` stands for the index in the list; without `#` the index is a part of the path |
/// | `in_proj_*\|q_proj_*` | `in_proj_weight`; but `q_proj_weight`, on its own, if the tensors joined as `in_proj_weight` differ in another axis than the first |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TorchName {
    /// The pattern.
    pub pattern: Option<&'static str>,
    /// Whether PyTorch has one tensor for all fields of this name (`in`): their tensors, one after the other
    /// along the first axis, in the order of the fields. The elements of a list are joined in the same way.
    pub joined: bool,
    /// The axes of the tensor in PyTorch: the number of our axis, or nothing for an axis of size 1. Tensors
    /// inside the field that do not state axes themselves have these.
    pub axes: Option<&'static [Option<usize>]>,
}

/// One field on the path to a tensor, or one element of a list.
#[derive(Debug)]
pub(super) struct Step {
    pub name: Name,
    pub torch: TorchName,
}

/// The name of a field, or the number of an element.
#[derive(Debug)]
pub(super) enum Name {
    Field(&'static str),
    Element(usize),
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field(name) => f.write_str(name),
            Self::Element(number) => number.fmt(f),
        }
    }
}

/// The place of a tensor in PyTorch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TorchPlace {
    /// The name there.
    pub key: String,
    /// Whether the tensor is only some rows of the one there.
    pub joined: bool,
    /// The name that the tensor has on its own where it cannot be joined, if there is one.
    pub apart: Option<String>,
    /// See [`TorchName::axes`].
    pub axes: Option<&'static [Option<usize>]>,
    /// If PyTorch has two names for the tensor and this is the second: the number of the field that has
    /// second names.
    pub copy: Option<usize>,
}

/// The place of the tensor at the end of a path.
pub(super) fn place(path: &[&Step], copy: Option<usize>) -> TorchPlace {
    let pattern = |step: &Step| match step.torch.pattern {
        Some(pattern) => pattern.to_owned(),
        None => step.name.to_string(),
    };
    let first = |step: &Step| {
        let pattern = pattern(step);
        let end = pattern.find('|').unwrap_or(pattern.len());
        pattern[..end].to_owned()
    };
    let last = |step: &Step| {
        let pattern = pattern(step);
        let begin = pattern.find('|').map_or(0, |bar| bar + 1);
        pattern[begin..].to_owned()
    };
    let joined = path.iter().any(|step| step.torch.joined);
    let has_apart = path.iter().any(|step| pattern(step).contains('|'));
    TorchPlace {
        key: key(path, first),
        joined,
        apart: has_apart.then(|| key(path, last)),
        axes: path.iter().rev().find_map(|step| step.torch.axes),
        copy,
    }
}

/// The name of the tensor at the end of a path, each step of which has a pattern.
fn key(path: &[&Step], pattern_of: impl Fn(&Step) -> String) -> String {
    let (mut key, mut endings) = (String::new(), String::new());
    let mut glued = true;
    let mut begin = |key: &mut String, piece: &str, glue: bool| {
        if !piece.is_empty() {
            if !std::mem::replace(&mut glued, glue) {
                key.push('.');
            }
            key.push_str(piece);
        }
    };
    let mut steps = path.iter().copied().peekable();
    while let Some(step) = steps.next() {
        let mut pattern = pattern_of(step);
        let numbered = step.torch.pattern.is_some() && pattern.contains('#');
        if numbered || step.torch.joined {
            let element = steps.next_if(|next| matches!(next.name, Name::Element(_)));
            if numbered {
                let Some(element) = element else {
                    panic!(
                        "module!: \"{pattern}\" has # for the place in a list, and {} is no list",
                        step.name
                    );
                };
                pattern = pattern.replace('#', &element.name.to_string());
            }
        }
        match pattern.split_once('*') {
            Some((before, after)) => {
                begin(&mut key, before, true);
                endings.push_str(after);
            }
            None => begin(&mut key, &pattern, false),
        }
    }
    key + &endings
}
