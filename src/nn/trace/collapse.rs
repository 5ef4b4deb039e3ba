//! Measures of collapse of a model's layers, read off a trace.

use super::{Call, Trace};
use crate::autodiff::{Kind, Tape};
use crate::collapse::{
    Spectrum, attention_similarity, cosine_similarity, dirichlet_energy, value, variance,
};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::ops::attention::Qkv;
use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::Axis;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// How alike the rows (nodes or tokens) of the output of one layer are.
///
/// For an output `[.., n, d]` of a batch these are means over its items. A number that cannot be computed is
/// NaN: all numbers if an entry is not finite, the similarity if there are fewer than two rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measures {
    /// The path of fields that leads to the layer.
    pub path: String,
    /// The layer's type.
    pub kind: &'static str,
    /// The number of calls that enclose this one.
    pub depth: usize,
    /// The shape of the output.
    pub shape: Vec<usize>,
    /// [`Spectrum::effective_rank`].
    pub effective_rank: f64,
    /// [`Spectrum::numerical_rank`].
    pub numerical_rank: f64,
    /// [`cosine_similarity`].
    pub similarity: f64,
    /// [`variance`].
    pub variance: f64,
    /// [`dirichlet_energy`], if a graph was given that has one node per row.
    pub energy: Option<f64>,
    /// [`attention_similarity`] of the dense attention inside the layer, the mean if there are several.
    pub attention: Option<f64>,
}

/// The [`Measures`] of the layers of a model, in the order of their calls; displayed as a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Collapse {
    /// The input, if the trace was taken [at an input](Trace::at) that has rows.
    pub input: Option<Measures>,
    /// One per call whose output has rows.
    pub layers: Vec<Measures>,
}

impl Trace {
    /// The measures of collapse of the outputs of all layers; with the energy if a graph is given.
    ///
    /// ```
    /// use emmy::{init, nn::{Linear, Trace}};
    /// let rng = &mut init::rng(0);
    /// let net = vec![Linear::<f64>::new(4, 8, true, rng), Linear::new(8, 3, true, rng)];
    /// let x = init::normal(&[10, 4], 1.0, rng);
    /// let trace = Trace::at(&net, &x, |pass, x| net[1].forward(pass, net[0].forward(pass, x).relu()));
    /// let collapse = trace.collapse(None)?;
    /// assert_eq!(collapse.layers.len(), 2);
    /// assert!(collapse.layers[1].effective_rank <= 3.0);
    /// println!("{collapse}");
    /// # Ok::<(), emmy::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the trace is not one of an evaluation ([`Trace::at`], [`Trace::evaluated`]): only those keep
    /// values.
    pub fn collapse(&self, graph: Option<&Graph>) -> Result<Collapse> {
        self.collapse_where(graph, |_| true)
    }

    /// The same for the calls that are chosen, such as `|call| call.kind == "TransformerBlock"`. Singular
    /// values are the expensive part: their time grows with n d min(n, d).
    ///
    /// # Errors
    /// As [`collapse`](Self::collapse).
    pub fn collapse_where(
        &self,
        graph: Option<&Graph>,
        chosen: impl Fn(&Call) -> bool,
    ) -> Result<Collapse> {
        let Some(recorded) = &self.recorded else {
            return Err(Error::invalid(
                "collapse of a trace",
                "a trace of an evaluation (`Trace::at`, `Trace::evaluated`)",
                "a trace that has not kept its values",
            ));
        };
        let mut similarities = BTreeMap::new();
        let mut measures = Vec::new();
        for call in self.calls.iter().filter(|call| chosen(call)) {
            let depth = std::iter::successors(call.parent, |&p| self.calls[p].parent).count();
            let Some(mut found) = recorded.tape.measures(call.output, graph) else {
                continue;
            };
            let inside = call.nodes.clone().filter_map(|node| {
                *(similarities.entry(node)).or_insert_with(|| recorded.tape.attention(node))
            });
            let inside: Vec<f64> = inside.collect();
            if !inside.is_empty() {
                found.attention = Some(inside.iter().sum::<f64>() / inside.len() as f64);
            }
            measures.push(Measures {
                path: call.path.clone(),
                kind: call.kind,
                depth,
                ..found
            });
        }
        let input = recorded
            .input
            .and_then(|x| recorded.tape.measures(x, graph));
        Ok(Collapse {
            input: input.map(|found| Measures {
                path: "input".to_owned(),
                ..found
            }),
            layers: measures,
        })
    }
}

/// The measures that are read off a tape of either float type.
pub(super) trait Measured {
    /// The measures of a node; none if it has no rows.
    fn measures(&self, node: usize, graph: Option<&Graph>) -> Option<Measures>;

    /// The similarity of the columns of attention, if the node is dense attention.
    fn attention(&self, node: usize) -> Option<f64>;
}

impl<F: Real> Measured for Tape<F> {
    fn measures(&self, node: usize, graph: Option<&Graph>) -> Option<Measures> {
        let x = self.handle(node).value();
        let shape = x.shape().to_vec();
        let &[.., n, d] = &shape[..] else { return None };
        if x.is_empty() {
            return None;
        }
        let items = x.to_shape((x.len() / (n * d), n, d)).ok()?.to_shared();
        let count = items.len_of(Axis(0)) as f64;
        let mut sums = [0.0; 4];
        let mut energy = None;
        for item in items.outer_iter() {
            let item: Tensor<F> = item.to_owned().into_dyn().into_shared();
            for (sum, found) in sums.iter_mut().zip(of_item(&item)) {
                *sum += found / count;
            }
            if let Some(graph) = graph.filter(|graph| graph.nodes() == n) {
                let found = value(&item, |x| dirichlet_energy(x, graph));
                *energy.get_or_insert(0.0) += found / count;
            }
        }
        let [effective_rank, numerical_rank, similarity, variance] = sums;
        Some(Measures {
            path: String::new(),
            kind: "",
            depth: 0,
            shape,
            effective_rank,
            numerical_rank,
            similarity,
            variance,
            energy,
            attention: None,
        })
    }

    fn attention(&self, node: usize) -> Option<f64> {
        let (kind, args) = {
            let node = self.node(node);
            (node.kind.clone(), node.args.clone())
        };
        let Kind::Attention { options, beta, t } = kind else {
            return None;
        };
        let mut operands = args.iter().map(|&id| self.handle(id));
        let mut next = || operands.next().expect("as many operands as the kind says");
        let compared = Qkv {
            q: next(),
            k: next(),
            v: next(),
            beta: beta.then(&mut next),
            t: t.then(&mut next),
        };
        Some(self.scratch(false, || {
            let coefficients = options.attention_coefficients(compared);
            attention_similarity(coefficients).item().as_f64()
        }))
    }
}

/// Effective and numerical rank, similarity, variance.
fn of_item<F: Real>(x: &Tensor<F>) -> [f64; 4] {
    if !x.iter().all(|x| x.is_finite()) {
        return [f64::NAN; 4];
    }
    let spectrum = Spectrum::of(x);
    [
        spectrum.effective_rank(),
        spectrum.numerical_rank(),
        value(x, cosine_similarity),
        value(x, variance),
    ]
}

impl fmt::Display for Collapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<&Measures> = self.input.iter().chain(&self.layers).collect();
        let optional = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.4}"));
        let rows = all.iter().map(|m| {
            [
                format!("{}{}", "  ".repeat(m.depth), m.path),
                m.kind.to_owned(),
                format!("{:?}", m.shape),
                format!("{:.3}", m.effective_rank),
                format!("{:.3}", m.numerical_rank),
                format!("{:.4}", m.similarity),
                format!("{:.4e}", m.variance),
                m.energy.map_or_else(String::new, |x| format!("{x:.4e}")),
                optional(m.attention),
            ]
        });
        let head = [
            "layer",
            "type",
            "output",
            "eff. rank",
            "num. rank",
            "similarity",
            "variance",
            "energy",
            "attention",
        ];
        let rows: Vec<[String; 9]> = std::iter::once(head.map(str::to_owned))
            .chain(rows)
            .collect();
        // A column without numbers is left out.
        let filled = |k: usize| rows[1..].iter().any(|row| !row[k].is_empty());
        let columns: Vec<usize> = (0..9).filter(|&k| k < 7 || filled(k)).collect();
        let width = |k: usize| {
            rows.iter()
                .map(|row| row[k].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = columns.iter().map(|&k| width(k)).collect();
        for row in &rows {
            let cells = columns.iter().zip(&widths).map(|(&k, &w)| match k {
                0..3 => format!("{:<w$}", row[k]),
                _ => format!("{:>w$}", row[k]),
            });
            let line: Vec<String> = cells.collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
        }
        Ok(())
    }
}
