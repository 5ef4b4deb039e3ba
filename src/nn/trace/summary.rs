//! A model as a table: its layers, the shapes of their outputs, their parameters.

use super::Trace;
use std::fmt;

/// The layers of a model in the order of their calls; displayed as a table.
///
/// ```
/// use emmy::{init, nn::{Activation, Mlp, Trace}};
///
/// let net = Mlp::<f64>::new(&[2, 3, 1], Activation::Relu, true, &mut init::rng(0));
/// let x = init::normal(&[5, 2], 1.0, &mut init::rng(1));
/// let summary = Trace::at(&net, &x, |pass, x| net.forward(pass, x)).summary();
/// // 2 · 3 + 3 in the first layer, 3 + 1 in the second.
/// assert_eq!(summary.parameters, 13);
/// let first = &summary.rows[1];
/// assert_eq!((first.kind, first.path.as_str(), first.parameters), ("Linear", "layers.0", 9));
/// assert_eq!(first.shape, [5, 3]);
/// assert!(summary.to_string().contains("layers.0"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// One row per call.
    pub rows: Vec<Row>,
    /// The number of scalars in all parameters of the model.
    pub parameters: usize,
}

/// One call in a [`Summary`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The path of fields that leads to the layer.
    pub path: String,
    /// The layer's type.
    pub kind: &'static str,
    /// The number of calls that enclose this one.
    pub depth: usize,
    /// The shape of the output.
    pub shape: Vec<usize>,
    /// The number of scalars in the layer's parameters.
    pub parameters: usize,
    /// Whether the parameters were counted at an earlier call of the same layer.
    pub again: bool,
}

impl Trace {
    /// The layers, the shapes of their outputs, and the sizes of their parameters.
    pub fn summary(&self) -> Summary {
        let sizes: Vec<usize> = self.shapes.iter().map(|s| s.iter().product()).collect();
        let mut rows: Vec<Row> = Vec::new();
        for call in &self.calls {
            let depth = std::iter::successors(call.parent, |&p| self.calls[p].parent).count();
            let known = |row: &Row| row.path == call.path && row.kind == call.kind;
            rows.push(Row {
                path: call.path.clone(),
                kind: call.kind,
                depth,
                shape: call.shape.clone(),
                parameters: call.parameters.iter().map(|&p| sizes[p]).sum(),
                again: !call.parameters.is_empty() && rows.iter().any(known),
            });
        }
        Summary {
            rows,
            parameters: sizes.iter().sum(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells: Vec<[String; 4]> = (self.rows.iter())
            .map(|row| {
                let count = match (row.parameters, row.again) {
                    (0, _) => String::new(),
                    (n, false) => n.to_string(),
                    (n, true) => format!("({n}, shared)"),
                };
                let indent = "  ".repeat(row.depth);
                [
                    format!("{indent}{}", row.path),
                    row.kind.to_owned(),
                    format!("{:?}", row.shape),
                    count,
                ]
            })
            .collect();
        let head = ["layer", "type", "output", "parameters"];
        let last = ["total", "", "", &self.parameters.to_string()];
        let width = |k: usize| {
            let widths = cells.iter().map(|row| row[k].chars().count());
            widths
                .chain([head[k].len(), last[k].len()])
                .max()
                .unwrap_or(0)
        };
        let [a, b, c, d] = [width(0), width(1), width(2), width(3)];
        let mut line = |row: [&str; 4]| {
            let [x, y, z, w] = row;
            writeln!(f, "{x:<a$}  {y:<b$}  {z:<c$}  {w:>d$}")
        };
        line(head)?;
        for row in &cells {
            line([&row[0], &row[1], &row[2], &row[3]])?;
        }
        line(last)
    }
}
