//! The conservation laws inside an attention layer: of queries and keys, and of values and output.

use super::{Invariance, MultiHeadAttention, Score};
use crate::linalg::Lp;
use crate::nn::{Linear, Params};
use crate::real::Real;
use crate::symmetry::{Law, Slice, Symmetry, Term};
use crate::tensor::Tensor;
use std::ops::Range;

impl<F: Real> MultiHeadAttention<F> {
    /// The laws of queries and keys, group by group:
    ///
    /// | scores | change without effect on the output | law |
    /// |---|---|---|
    /// | dot product | q → Aq, k → A⁻ᵀk, any A | Σ_h G_Q^h W_Q^hᵀ − W_K G_Kᵀ = 0; ∂L/∂b_K = 0 |
    /// | with rotary positions | planes scaled, and rotated | ⟨W_Q[p], G⟩ − ⟨W_K[p], G⟩ = 0 per plane |
    /// | of normalised queries and keys | rotations, and sizes if ε = 0 | ⟨W_Q, G⟩ = 0 and ⟨W_K, G⟩ = 0 |
    /// | distance | rotations, and equal shifts | W_Q G_Qᵀ + W_K G_Kᵀ symmetric |
    ///
    /// W is augmented by b. Values and output: v → Av, W_O → W_O A⁻¹, any A. With a score normaliser, only
    /// the laws that follow from its [`Invariance`] are left, for [`Invariance::Similarities`] those of
    /// rotations and ⟨W_Q, G⟩ + ⟨W_K, G⟩ + ⟨W_V, G⟩ − ⟨W_O, G⟩ = 0 per group; with a
    /// [contraction](super::AttentionConfig::contraction), only those of rotations if its norm is the 2-norm,
    /// and none for another norm.
    pub(super) fn inside(&self, params: &Params<'_, F>) -> Vec<Law> {
        let c = &self.config;
        // The divisor of a contraction is a product of norms of the weights. Rotations leave 2-norms as they
        // are, and change the other norms. A divisor that is a constant for derivatives has no effect on the
        // laws.
        let divisor = match c.contraction.filter(|c| !c.stop_gradient) {
            None => None,
            Some(c) if c.p == Lp::Two => Some(Invariance::Rotations),
            Some(_) => Some(Invariance::Nothing),
        };
        let normalizer = self.normalizer.as_ref().map(|n| n.invariance());
        let of = |known: &Option<Invariance>| match known {
            None => (true, true),
            Some(Invariance::Rotations | Invariance::Similarities) => (false, true),
            Some(Invariance::Nothing) => (false, false),
        };
        let (a, b) = (of(&divisor), of(&normalizer));
        let (open, turns) = (a.0 && b.0, a.1 && b.1);
        // Without a normaliser this law follows from the others.
        let joint = divisor.is_none()
            && c.normalize.is_none()
            && normalizer == Some(Invariance::Similarities);
        let mut laws = Vec::new();
        for g in 0..c.groups {
            match (c.rotary, c.normalize, c.score) {
                (Some(_), eps, score) => {
                    if open && eps.is_none() && score == Score::Dot {
                        laws.extend(self.planes(params, g));
                    }
                    if open && eps == Some(0.0) {
                        laws.extend(self.sizes(params, g));
                    }
                    if turns {
                        laws.extend(self.turns_of_planes(params, g));
                    }
                }
                (None, None, Score::Dot) if open => {
                    laws.push(self.queries_and_keys(params, g, Symmetry::Linear, Term::outgoing));
                }
                (None, eps, _) => {
                    if open && eps == Some(0.0) {
                        laws.extend(self.sizes(params, g));
                    }
                    if turns {
                        laws.push(self.queries_and_keys(
                            params,
                            g,
                            Symmetry::Rotation,
                            Term::incoming,
                        ));
                    }
                }
            }
            if joint {
                laws.push(self.one_factor(params, g));
            }
            let symmetry = if open {
                Symmetry::Linear
            } else {
                Symmetry::Rotation
            };
            if turns {
                laws.push(self.values_and_output(params, g, symmetry));
            }
        }
        if open && c.rotary.is_none() && c.normalize.is_none() {
            laws.extend(self.shifts(params));
        }
        laws
    }

    /// A law of the queries of the heads of a group and of its keys, on opposite sides or on the same side.
    fn queries_and_keys(
        &self,
        params: &Params<'_, F>,
        g: usize,
        symmetry: Symmetry,
        of_keys: fn(Slice) -> Term,
    ) -> Law {
        let queries = self.sharing(g).flat_map(|h| self.query_rows(params, h));
        let mut terms: Vec<_> = queries.map(Term::incoming).collect();
        if let Some(key) = &self.key {
            let keys = rows(params, key, 1, self.part(self.config.key_width, g));
            terms.extend(keys.into_iter().map(of_keys));
        }
        self.law(g, "queries and keys", symmetry, terms)
    }

    /// Values of a group against the columns of the output that read its heads.
    fn values_and_output(&self, params: &Params<'_, F>, g: usize, symmetry: Symmetry) -> Law {
        let e = self.config.value_width;
        let columns = params.columns(&self.output.weight);
        let values = rows(params, &self.value, 1, self.part(e, g)).into_iter();
        let read = self.sharing(g).map(|h| columns.narrow(h * e..(h + 1) * e));
        let terms = (values.map(Term::incoming)).chain(read.map(Term::outgoing));
        self.law(g, "values and output", symmetry, terms.collect())
    }

    /// Queries, keys and values of a group against the columns of the output that read its heads, all neurons
    /// as one.
    fn one_factor(&self, params: &Params<'_, F>, g: usize) -> Law {
        let (d, e) = (self.config.key_width, self.config.value_width);
        let queries = (self.sharing(g)).flat_map(|h| rows(params, &self.query, d, h..h + 1));
        let keys = self.key.iter();
        let keys = keys.flat_map(|key| rows(params, key, d, g..g + 1));
        let values = rows(params, &self.value, e, g..g + 1);
        let columns = params.columns(&self.output.weight).together(e);
        let read = self.sharing(g).map(|h| columns.narrow(h..h + 1));
        let written = queries.chain(keys).chain(values).map(Term::incoming);
        let terms = written.chain(read.map(Term::outgoing)).collect();
        let what = "queries, keys, values and output";
        self.law(g, what, Symmetry::Rescaling, terms)
    }

    /// Rotary positions: a plane of the keys grows if the same plane of the queries shrinks.
    fn planes(&self, params: &Params<'_, F>, g: usize) -> Vec<Law> {
        let Some(key) = &self.key else {
            return Vec::new();
        };
        let planes = self.config.key_width / 2;
        let part = |map, h| rows(params, map, 2, h * planes..(h + 1) * planes);
        let queries = self.sharing(g).flat_map(|h| part(&self.query, h));
        let terms = queries.map(Term::incoming);
        let terms = terms.chain(part(key, g).into_iter().map(Term::outgoing));
        vec![self.law(g, "planes", Symmetry::Rescaling, terms.collect())]
    }

    /// Rotary positions: a plane may be rotated in queries and keys alike, since rotations of one plane
    /// commute.
    fn turns_of_planes(&self, params: &Params<'_, F>, g: usize) -> Vec<Law> {
        let d = self.config.key_width;
        let law = |p: usize| {
            let plane = |map, h: usize| rows(params, map, 1, h * d + 2 * p..h * d + 2 * p + 2);
            let mut slices: Vec<_> = self
                .sharing(g)
                .flat_map(|h| plane(&self.query, h))
                .collect();
            slices.extend(self.key.iter().flat_map(|key| plane(key, g)));
            let terms = slices.into_iter().map(Term::incoming).collect();
            self.law(
                g,
                &format!("turns of plane {}", p + 1),
                Symmetry::Rotation,
                terms,
            )
        };
        (0..d / 2).map(law).collect()
    }

    /// Normalised queries and keys with ε = 0: the size of each has no effect.
    fn sizes(&self, params: &Params<'_, F>, g: usize) -> Vec<Law> {
        let d = self.config.key_width;
        let size = |map, range| -> Vec<Term> {
            let whole = rows(params, map, d, range).into_iter();
            whole.map(Term::incoming).collect()
        };
        let mut laws = Vec::new();
        if self.key.is_some() {
            let queries = size(&self.query, self.sharing(g));
            laws.push(self.law(g, "size of queries", Symmetry::Rescaling, queries));
        }
        let keys = size(self.keys(), g..g + 1);
        laws.push(self.law(g, "size of keys", Symmetry::Rescaling, keys));
        laws
    }

    /// A shift of all keys adds one number to all scores of a query, which does not change the softmax. A
    /// shift of queries and keys together does not change distances.
    fn shifts(&self, params: &Params<'_, F>) -> Vec<Law> {
        let c = &self.config;
        let idle = |map: &Linear<F>, name: &str| {
            let law = |bias: &Tensor<F>| {
                // No other gradient cancels this one; it is compared with the gradient of the weight.
                let terms = vec![
                    Term::incoming(params.rows(bias)),
                    Term::reference(params.rows(&map.weight)),
                ];
                Law::new(name, 1, Symmetry::Translation, terms)
            };
            map.bias.iter().map(law).collect::<Vec<_>>()
        };
        match (c.score, &self.key) {
            (_, None) => idle(&self.query, "bias of queries and keys"),
            (Score::Dot, Some(key)) => idle(key, "bias of the keys"),
            // The bias of the keys of a group shifts together with the biases of the queries of all its
            // heads.
            (_, Some(key)) => {
                let Some((query, key)) = self.query.bias.as_ref().zip(key.bias.as_ref()) else {
                    return Vec::new();
                };
                let d = c.key_width;
                let law = |g: usize| {
                    let of_heads = self
                        .sharing(g)
                        .map(|h| params.rows(query).narrow(h * d..(h + 1) * d));
                    let of_keys = params.rows(key).narrow(g * d..(g + 1) * d);
                    let terms = of_heads.chain([of_keys]).map(Term::incoming).collect();
                    self.law(
                        g,
                        "biases of queries and keys",
                        Symmetry::Translation,
                        terms,
                    )
                };
                (0..c.groups).map(law).collect()
            }
        }
    }

    /// [W_Q b_Q] of head h.
    fn query_rows(&self, params: &Params<'_, F>, h: usize) -> Vec<Slice> {
        rows(params, &self.query, 1, self.part(self.config.key_width, h))
    }

    /// The neurons of head or group k, each of which has `width`.
    fn part(&self, width: usize, k: usize) -> Range<usize> {
        k * width..(k + 1) * width
    }

    /// The heads that share group g.
    fn sharing(&self, g: usize) -> Range<usize> {
        let share = self.config.heads / self.config.groups;
        g * share..(g + 1) * share
    }

    fn law(&self, g: usize, what: &str, symmetry: Symmetry, terms: Vec<Term>) -> Law {
        let Range { start, end } = self.sharing(g);
        let name = match end - start {
            1 => format!("head {end}, {what}"),
            _ => format!("heads {} to {end}, {what}", start + 1),
        };
        Law::new(name, 1, symmetry, terms)
    }
}

/// [W b] of a map whose outputs are the neurons in groups of `per`; only the neurons in `range`.
fn rows<F: Real>(
    params: &Params<'_, F>,
    map: &Linear<F>,
    per: usize,
    range: Range<usize>,
) -> Vec<Slice> {
    let groups = map.weight.shape()[0] / per;
    let parameters = std::iter::once(&map.weight).chain(&map.bias);
    let slice = |p| params.grouped(p, 1, groups).narrow(range.clone());
    parameters.map(slice).collect()
}
