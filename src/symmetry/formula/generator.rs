//! Generators as formulas: entries that belong together as rows, columns or whole parameters.

use crate::symmetry::{Generator, Layout};
use std::collections::BTreeMap;

/// The most single entries that are written out; of more entries only the number is given.
const MOST: usize = 12;

/// A part of a formula: its factor, the text after the factor, and the number of entries that are not written
/// out, or 1.
type Summand = (f64, String, usize);

/// A part that stands for many entries.
fn many(count: usize, what: &str) -> Summand {
    (1.0, format!("({count} {what})"), count)
}

/// A part that is written out.
fn one(weight: f64, what: String) -> Summand {
    (weight, what, 1)
}

impl Generator {
    /// δ = 0 as a formula; G is the gradient of the parameter beside it. Parameters are read as matrices,
    /// all axes but the last as rows.
    ///
    /// ```
    /// use emmy::symmetry::{Generator, Layout};
    /// let layout = Layout::new([("W".to_owned(), vec![2, 2]), ("b".to_owned(), vec![2])]);
    /// // W[0,:] and b[0] grow together, b[1] is shifted.
    /// let matrix = vec![(0, 0, 1.0), (1, 1, 1.0), (4, 4, 1.0)];
    /// let generator = Generator::new(matrix, vec![(5, -2.0)]);
    /// assert_eq!(generator.formula(&layout), "⟨W[0,:], G⟩ + ⟨b[0], G⟩ − 2 G of b[1] = 0");
    /// ```
    pub fn formula(&self, layout: &Layout) -> String {
        written(&self.parts(layout))
    }

    /// The length of the formula: the number of its parts, where entries that are not written out count one
    /// by one; then the number of its entries.
    pub(crate) fn length(&self, layout: &Layout) -> (usize, usize) {
        let parts = self.parts(layout);
        (parts.iter().map(|part| part.2).sum(), self.entries())
    }

    fn parts(&self, layout: &Layout) -> Vec<Summand> {
        let mut parts: Vec<Summand> = Vec::new();
        for k in 0..layout.shapes().len() {
            let range = layout.start(k)..layout.start(k) + layout.size(k);
            let inside = |i: &usize| range.contains(i);
            let matrix: BTreeMap<(usize, usize), f64> = (self.matrix().iter())
                .filter(|(i, j, _)| inside(i) && inside(j))
                .map(|&(i, j, w)| ((i - range.start, j - range.start), w))
                .collect();
            let vector: BTreeMap<usize, f64> = (self.vector().iter())
                .filter(|(i, _)| inside(i))
                .map(|&(i, w)| (i - range.start, w))
                .collect();
            let block = Block {
                name: &layout.names()[k],
                size: layout.matrix(k),
            };
            parts.extend(block.products(&matrix));
            parts.extend(block.sums(&vector));
        }
        let across =
            |&&(i, j, _): &&(usize, usize, f64)| layout.parameter(i) != layout.parameter(j);
        let across: Vec<_> = self.matrix().iter().filter(across).collect();
        if across.len() > MOST {
            parts.push(many(across.len(), "products across parameters"));
        } else {
            let entry = |i: usize| {
                let k = layout.parameter(i);
                let block = Block {
                    name: &layout.names()[k],
                    size: layout.matrix(k),
                };
                block.entry(i - layout.start(k))
            };
            let product = |&&(i, j, w): &&(usize, usize, f64)| {
                one(w, format!("{} · G of {}", entry(j), entry(i)))
            };
            parts.extend(across.iter().map(product));
        }
        parts
    }
}

/// About five digits, with an exponent where the number is far from 1.
fn short(w: f64) -> String {
    let text = match (1e-3..1e6).contains(&w) {
        true => format!("{w:.4}"),
        false => return format!("{w:.4e}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Parts with their signs and factors.
fn written(parts: &[Summand]) -> String {
    let mut out = String::new();
    for (weight, what, _) in parts {
        let sign = match (out.is_empty(), *weight < 0.0) {
            (true, false) => "",
            (true, true) => "−",
            (false, false) => " + ",
            (false, true) => " − ",
        };
        let factor = match weight.abs() {
            w if (w - 1.0).abs() < 1e-9 => String::new(),
            w if (w - w.round()).abs() < 1e-9 => format!("{w:.0} "),
            w => format!("{} ", short(w)),
        };
        out += &format!("{sign}{factor}{what}");
    }
    out + " = 0"
}

/// One parameter, read as a matrix.
struct Block<'a> {
    name: &'a str,
    /// Rows and columns.
    size: [usize; 2],
}

impl Block<'_> {
    /// The entries of B within the parameter, by the first description that fits all of them.
    fn products(&self, entries: &BTreeMap<(usize, usize), f64>) -> Vec<Summand> {
        if entries.is_empty() {
            return Vec::new();
        }
        let [rows, columns] = self.size;
        // a[r, q] times row q is added to row r, in every column alike; the same for columns.
        let by_rows = factored(entries, |e| (e / columns, e % columns), columns);
        let by_columns = factored(entries, |e| (e % columns, e / columns), rows);
        let whole = |a: &BTreeMap<(usize, usize), f64>, n: usize| {
            let w = *a.values().next()?;
            let alike = a.iter().all(|(&(i, j), &x)| i == j && close(x, w));
            (alike && a.len() == n).then_some(w)
        };
        let mean = |a: &BTreeMap<(usize, usize), f64>, n: usize| {
            let w = *a.values().next()?;
            (n > 1 && a.len() == n * n && a.values().all(|&x| close(x, w))).then_some(w)
        };
        if let Some(w) = by_rows.as_ref().and_then(|a| whole(a, rows)) {
            return vec![one(w, format!("⟨{}, G⟩", self.name))];
        }
        if let Some(w) = by_rows.as_ref().and_then(|a| mean(a, rows)) {
            return vec![one(w, format!("⟨11ᵀ {}, G⟩", self.name))];
        }
        if let Some(w) = by_columns.as_ref().and_then(|a| mean(a, columns)) {
            return vec![one(w, format!("⟨{} 11ᵀ, G⟩", self.name))];
        }
        let lines = |a: BTreeMap<(usize, usize), f64>, line: &dyn Fn(usize) -> String| {
            let part = |((i, j), w): ((usize, usize), f64)| match i == j {
                true => one(w, format!("⟨{}, G⟩", line(i))),
                false => one(w, format!("⟨{}, G of {}⟩", line(j), line(i))),
            };
            a.into_iter().map(part).collect::<Vec<_>>()
        };
        // Only a multiple of the identity fits both.
        let found = by_rows.map(|a| lines(a, &|i| self.row(i)));
        let found = found.or_else(|| by_columns.map(|a| lines(a, &|j| self.column(j))));
        if let Some(lines) = found.filter(|lines| lines.len() <= MOST) {
            return lines;
        }
        if entries.len() > MOST {
            let what = format!("products of entries of {}", self.name);
            return vec![many(entries.len(), &what)];
        }
        let product = |(&(i, j), &w): (&(usize, usize), &f64)| match i == j {
            true => one(w, format!("⟨{}, G⟩", self.entry(i))),
            false => one(w, format!("{} · G of {}", self.entry(j), self.entry(i))),
        };
        entries.iter().map(product).collect()
    }

    /// b within the parameter.
    fn sums(&self, entries: &BTreeMap<usize, f64>) -> Vec<Summand> {
        let [rows, columns] = self.size;
        let Some(&first) = entries.values().next() else {
            return Vec::new();
        };
        if entries.len() == rows * columns && rows * columns > 1 && all_close(entries, first) {
            return vec![one(first, format!("Σ G of {}", self.name))];
        }
        let lines = |n: usize, length: usize, of: &dyn Fn(usize) -> usize| {
            let mut lines: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            for (&e, &w) in entries {
                lines.entry(of(e)).or_default().push(w);
            }
            let fits =
                (lines.values()).all(|l| l.len() == length && l.iter().all(|&w| close(w, l[0])));
            (fits && length > 1 && n > 0).then(|| {
                lines
                    .into_iter()
                    .map(|(i, l)| (i, l[0]))
                    .collect::<Vec<_>>()
            })
        };
        let by_rows = lines(rows, columns, &|e| e / columns);
        let by_columns = lines(columns, rows, &|e| e % columns);
        let named = |lines: Vec<(usize, f64)>, line: &dyn Fn(usize) -> String| {
            let part = |(i, w): (usize, f64)| one(w, format!("Σ G of {}", line(i)));
            lines.into_iter().map(part).collect::<Vec<_>>()
        };
        let found = by_rows.map(|l| named(l, &|i| self.row(i)));
        let found = found.or_else(|| by_columns.map(|l| named(l, &|j| self.column(j))));
        if let Some(lines) = found.filter(|lines| lines.len() <= MOST) {
            return lines;
        }
        if entries.len() > MOST {
            let what = format!("entries of G of {}", self.name);
            return vec![many(entries.len(), &what)];
        }
        let entry = |(&e, &w): (&usize, &f64)| one(w, format!("G of {}", self.entry(e)));
        entries.iter().map(entry).collect()
    }

    fn row(&self, i: usize) -> String {
        match self.size {
            [1, _] => self.name.to_owned(),
            [_, 1] => format!("{}[{i}]", self.name),
            _ => format!("{}[{i},:]", self.name),
        }
    }

    fn column(&self, j: usize) -> String {
        format!("{}[:,{j}]", self.name)
    }

    fn entry(&self, e: usize) -> String {
        let [_, columns] = self.size;
        match columns {
            1 => format!("{}[{e}]", self.name),
            _ => format!("{}[{},{}]", self.name, e / columns, e % columns),
        }
    }
}

/// a with B = a ⊗ 1. `split` maps an entry to its line and its place in the line of `length` entries; each
/// pair of lines must have the same number at every place.
fn factored(
    entries: &BTreeMap<(usize, usize), f64>,
    split: impl Fn(usize) -> (usize, usize),
    length: usize,
) -> Option<BTreeMap<(usize, usize), f64>> {
    let mut lines: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for (&(i, j), &w) in entries {
        let ((a, place), (b, other)) = (split(i), split(j));
        if place != other {
            return None;
        }
        lines.entry((a, b)).or_default().push(w);
    }
    let alike = |l: &Vec<f64>| l.len() == length && l.iter().all(|&w| close(w, l[0]));
    let fits = lines.values().all(alike);
    fits.then(|| lines.into_iter().map(|(pair, l)| (pair, l[0])).collect())
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn all_close(entries: &BTreeMap<usize, f64>, first: f64) -> bool {
    entries.values().all(|&w| close(w, first))
}
