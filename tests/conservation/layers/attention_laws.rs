//! The laws of an attention layer, written down.

use super::attention::Attention;
use super::terms::{idle_bias, incoming, outgoing, rows};
use emmy::Real;
use emmy::nn::{Linear, Params};
use emmy::symmetry::{Law, Slice, Symmetry};
use std::ops::Range;

impl<F: Real> Attention<'_, F> {
    /// C8, C10, C11: Σ_h G_Q^h W_Q^hᵀ − W_K G_Kᵀ = 0 over the heads h of a group, W augmented by b.
    pub fn queries_and_keys(&self, slots: &Params<'_, F>, layer: usize) -> Vec<Law> {
        let law = |g: usize| {
            let queries = self.sharing(g).flat_map(|h| self.query_rows(slots, h));
            let terms = [incoming(queries), outgoing(self.key_rows(slots, g))].concat();
            let name = self.name(layer, g, "queries and keys");
            Law::new(name, layer, Symmetry::Linear, terms)
        };
        (0..self.config.groups).map(law).collect()
    }

    /// The law that would hold if no two heads shared a key: G_Q^h W_Q^hᵀ − W_K G_Kᵀ = 0 for each
    /// head.
    pub fn each_query_and_its_key(&self, slots: &Params<'_, F>) -> Vec<Law> {
        let law = |h: usize| {
            let key = self.key_rows(slots, h / (self.config.heads / self.config.groups));
            let terms = [incoming(self.query_rows(slots, h)), outgoing(key)].concat();
            Law::new(format!("head {}", h + 1), 1, Symmetry::Linear, terms)
        };
        (0..self.config.heads).map(law).collect()
    }

    /// C9, C10, C11: G_V W_Vᵀ − Σ_h W_O^hᵀ G_O^h = 0 over the heads h of a group, W_V augmented by b_V.
    pub fn values_and_output(&self, slots: &Params<'_, F>, layer: usize) -> Vec<Law> {
        let columns = slots.columns(&self.output.weight);
        let law = |g: usize| {
            let values = rows(
                slots,
                &self.value,
                1,
                part(&self.value, self.config.groups, g),
            );
            let d = values[0].neurons();
            let outputs = self.sharing(g).map(|h| columns.narrow(h * d..(h + 1) * d));
            let terms = [incoming(values), outgoing(outputs)].concat();
            let name = self.name(layer, g, "values and output");
            Law::new(name, layer, Symmetry::Linear, terms)
        };
        (0..self.config.groups).map(law).collect()
    }

    /// C10: ∂L/∂b_K = 0, entry by entry.
    pub fn key_bias(&self, slots: &Params<'_, F>, layer: usize) -> Vec<Law> {
        let name = format!("layer {layer}, bias of the keys");
        idle_bias(&name, layer, slots, self.keys())
    }

    /// C12: Σ_h ⟨W_Q^h[p], G⟩ − ⟨W_K[p], G⟩ = 0 over the heads h of a group, for each plane p that rotary
    /// positions rotate.
    pub fn planes(&self, slots: &Params<'_, F>) -> Vec<Law> {
        let rows = |map: &Linear<F>, of: usize, h: usize| {
            let Range { start, end } = part(map, of, h);
            rows(slots, map, 2, start / 2..end / 2)
        };
        let law = |g: usize| {
            let queries = self.sharing(g);
            let queries = queries.flat_map(|h| rows(&self.query, self.config.heads, h));
            let keys = rows(self.keys(), self.config.groups, g);
            let terms = [incoming(queries), outgoing(keys)].concat();
            let name = self.name(1, g, "planes").replace("layer 1, ", "");
            Law::new(name, 1, Symmetry::Rescaling, terms)
        };
        (0..self.config.groups).map(law).collect()
    }

    /// In addition to C12: a plane may be rotated in the queries of a group and its key alike, since
    /// rotations of one plane commute.
    pub fn turns_of_planes(&self, slots: &Params<'_, F>) -> Vec<Law> {
        let d = self.config.key_width;
        let law = |(g, p): (usize, usize)| {
            let rows =
                |map: &Linear<F>, h: usize| rows(slots, map, 1, h * d + 2 * p..h * d + 2 * p + 2);
            let queries = self.sharing(g).flat_map(|h| rows(&self.query, h));
            let terms = incoming(queries.chain(rows(self.keys(), g)));
            let name = format!("group {}, plane {}, turns", g + 1, p + 1);
            Law::new(name, 1, Symmetry::Rotation, terms)
        };
        let planes = (0..self.config.groups).flat_map(|g| (0..d / 2).map(move |p| (g, p)));
        planes.map(law).collect()
    }

    /// C13: ⟨W_Q, G⟩ = 0 and ⟨W_K, G⟩ = 0, each for every head.
    pub fn sizes(&self, slots: &Params<'_, F>) -> Vec<Law> {
        let law = |(name, map): (&str, &Linear<F>)| {
            let d = self.config.key_width;
            let terms = incoming(rows(slots, map, d, 0..map.weight.shape()[0] / d));
            Law::new(format!("heads, {name}"), 1, Symmetry::Rescaling, terms)
        };
        [("queries", &self.query), ("keys", self.keys())]
            .map(law)
            .into()
    }

    /// C14, and in addition to C13: the queries of a group and its key may be rotated together; if tied, they
    /// are the same.
    pub fn turns(&self, slots: &Params<'_, F>) -> Vec<Law> {
        let law = |g: usize| {
            let queries = self.sharing(g).flat_map(|h| self.query_rows(slots, h));
            let keys = self.key.iter().flat_map(|_| self.key_rows(slots, g));
            let name = self.name(1, g, "turns").replace("layer 1, ", "");
            Law::new(name, 1, Symmetry::Rotation, incoming(queries.chain(keys)))
        };
        (0..self.config.groups).map(law).collect()
    }

    /// In addition to C14: b_Q and b_K may be shifted alike; if tied, they are the same and have no effect.
    pub fn shifts(&self, slots: &Params<'_, F>) -> Vec<Law> {
        let Some(key) = &self.key else {
            return idle_bias("bias of queries and keys", 1, slots, &self.query);
        };
        let law = |(query, key)| {
            let terms = incoming([query, key].map(|bias| slots.rows(bias)));
            let name = "biases of queries and keys";
            Law::new(name, 1, Symmetry::Translation, terms)
        };
        let biases = self.query.bias.as_ref().zip(key.bias.as_ref());
        biases.map(law).into_iter().collect()
    }

    /// [W_Q b_Q] of head h.
    fn query_rows(&self, slots: &Params<'_, F>, h: usize) -> Vec<Slice> {
        rows(
            slots,
            &self.query,
            1,
            part(&self.query, self.config.heads, h),
        )
    }

    /// [W_K b_K] of group g.
    fn key_rows(&self, slots: &Params<'_, F>, g: usize) -> Vec<Slice> {
        rows(
            slots,
            self.keys(),
            1,
            part(self.keys(), self.config.groups, g),
        )
    }

    /// The heads that share group g.
    fn sharing(&self, g: usize) -> Range<usize> {
        let share = self.config.heads / self.config.groups;
        g * share..(g + 1) * share
    }

    fn name(&self, layer: usize, g: usize, what: &str) -> String {
        let Range { start, end } = self.sharing(g);
        match end - start {
            1 => format!("layer {layer}, head {end}, {what}"),
            _ => format!("layer {layer}, heads {} to {end}, {what}", start + 1),
        }
    }
}

/// The outputs of a map that belong to head h of H.
fn part<F: Real>(map: &Linear<F>, heads: usize, h: usize) -> Range<usize> {
    let d = map.weight.shape()[0] / heads;
    h * d..(h + 1) * d
}
