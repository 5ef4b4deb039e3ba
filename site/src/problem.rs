//! What is wrong in the book, and where.

use std::fmt;

/// One fault, in a line of a file (0 for the file as a whole).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub file: String,
    pub line: usize,
    pub text: String,
}

impl Problem {
    pub(crate) fn new(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line,
            text: text.into(),
        }
    }
}

/// All faults, by file and line.
#[derive(Debug)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    pub(crate) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort();
        Self(problems)
    }

    pub(crate) fn one(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self(vec![Problem::new(file, line, text)])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for Problem { file, line, text } in &self.0 {
            match line {
                0 => writeln!(f, "{file}: {text}")?,
                _ => writeln!(f, "{file}:{line}: {text}")?,
            }
        }
        let n = self.0.len();
        write!(
            f,
            "the site was not built: {n} {}",
            if n == 1 { "fault" } else { "faults" }
        )
    }
}
