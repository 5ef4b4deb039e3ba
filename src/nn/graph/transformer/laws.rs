//! How the graph transformer takes part in conservation laws.

use super::TransformerConv;
use crate::nn::graph::Heads;
use crate::nn::graph::heads::{WithHeads, moves, sums_to_one};
use crate::nn::{Layer, Linear, Params};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::symmetry::{Law, Ports, Slice, Symmetry, Term};
use crate::tensor::Tensor;

impl<F: Real> Layer<F> for TransformerConv<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let divided = self.options.score_norm.is_some();
        let (groups, heads) = self.options.shared();
        let width = self.query.weight.shape()[0] / groups;
        let per_head = |p: &Tensor<F>| params.grouped(p, groups, width);
        let of = |map: &Linear<F>| {
            let parts = std::iter::once(&map.weight).chain(&map.bias);
            parts.map(per_head).collect::<Vec<_>>()
        };
        let mut incoming = of(&self.value);
        let mut attention = Vec::new();
        // W_e scales keys and values alike.
        if let Some(edge) = &self.edge {
            incoming.push(per_head(edge));
        }
        // LipschitzNorm's divisor is of degree 2 in queries, keys and values together, as the scores are.
        if divided {
            incoming.extend([&self.key, &self.query].into_iter().flat_map(of));
        } else if self.edge.is_some() {
            incoming.extend(of(&self.key));
            attention.extend(of(&self.query));
        }
        let own = self.skip.iter();
        let own = own.flat_map(|map| std::iter::once(&map.weight).chain(&map.bias));
        incoming.extend(own.map(|p| params.rows(p)));
        attention.extend(self.gate_parts(params).into_iter().flatten());
        let maps = [&self.query, &self.key, &self.value]
            .into_iter()
            .chain(&self.skip);
        let mut ports = Ports::writes([]).reads(maps.map(|map| params.columns(&map.weight)));
        if let Some(edge) = &self.edge {
            ports = ports.reads([params.columns(edge)]);
        }
        Some(Ports {
            writers: (incoming.into_iter().map(Term::incoming))
                .chain(attention.into_iter().map(Term::attention))
                .collect(),
            heads,
            // Everything else reads neurons through products, in the gate and in the scores.
            mixes: !divided,
            shifts: self.shifts(params),
            together: match divided {
                true => width / heads,
                false => 1,
            },
            inside: self.inside(params),
            ..ports
        })
    }
}

impl<F: Real> TransformerConv<F> {
    /// The ports on a graph. If each row of α sums to one, b_v adds the same number to all outputs of a
    /// neuron, as b_r does.
    pub(super) fn ports_on(&self, params: &Params<'_, F>, edges: &Pattern) -> Option<Ports> {
        let mut ports = self.ports(params)?;
        let o = &self.options;
        if let Some(bias) = &self.value.bias
            && sums_to_one(o.dropout, edges)
            && self.gate.is_none()
            && o.score_norm.is_none()
        {
            let alone = moves(params, bias, o.join, o.heads, 1.0).into_iter();
            ports.offsets.extend(alone.map(|term| vec![term]));
        }
        Some(ports)
    }

    /// The shift that the operations do not show: coefficients differ from head to head, but without dropout
    /// each row of α sums to one, so that b_v shifts concatenated heads alike. A gate reads the heads too.
    fn shifts(&self, params: &Params<'_, F>) -> Vec<Slice> {
        let o = &self.options;
        let concatenated = o.join == Heads::Concatenate && o.heads > 1;
        let alike = concatenated && o.dropout == 0.0 && self.gate.is_none();
        let bias = self.value.bias.as_ref().filter(|_| alike);
        bias.map(|b| params.whole(b)).into_iter().collect()
    }

    /// The parts of the gate's weight for a, r and a − r, one entry per neuron of the output.
    fn gate_parts(&self, params: &Params<'_, F>) -> Option<[Slice; 3]> {
        let w = self.gate.as_ref()?;
        let out = w.len() / 3;
        let all = params.grouped(w, 1, w.len());
        Some([0, 1, 2].map(|k| all.narrow(k * out..(k + 1) * out)))
    }

    /// The laws inside the layer: those of queries and keys, of the bias of the keys, and of the gate.
    fn inside(&self, params: &Params<'_, F>) -> Vec<Law> {
        let mut laws = Vec::new();
        let (heads, all) = (self.options.heads, self.query.weight.shape()[0]);
        let width = all / heads;
        let divided = self.options.score_norm.is_some();
        if self.edge.is_none() {
            let rows = |map: &Linear<F>, h: usize| {
                let parts = std::iter::once(&map.weight).chain(&map.bias);
                let narrow = |p| params.rows(p).narrow(h * width..(h + 1) * width);
                parts.map(narrow).collect::<Vec<_>>()
            };
            // Lengths of queries and keys are in the divisor; only rotations leave them as they are.
            let (symmetry, of_keys): (_, fn(Slice) -> Term) = match divided {
                true => (Symmetry::Rotation, Term::incoming),
                false => (Symmetry::Linear, Term::outgoing),
            };
            laws.extend((0..heads).map(|h| {
                let queries = rows(&self.query, h).into_iter().map(Term::incoming);
                let keys = rows(&self.key, h).into_iter().map(of_keys);
                let name = format!("head {}, queries and keys", h + 1);
                Law::new(name, 0, symmetry, queries.chain(keys).collect())
            }));
        }
        if let Some(bias) = self.key.bias.as_ref().filter(|_| !divided) {
            let terms = [
                Term::incoming(params.rows(bias)),
                Term::reference(params.rows(&self.key.weight)),
            ];
            let name = "bias of the keys";
            laws.push(Law::new(name, 0, Symmetry::Translation, terms.into()));
        }
        if let Some([a, r, difference]) = self.gate_parts(params) {
            let less = |slice| Term::incoming(slice).times(-1.0);
            let terms = vec![Term::incoming(a), less(r), less(difference)];
            laws.push(Law::new("gate", 0, Symmetry::Translation, terms));
        }
        laws
    }
}
