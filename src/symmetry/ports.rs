//! How a layer takes part in conservation laws: which of its parameters write and read neurons, and what it
//! does to the symmetries of its input.

use super::{Law, Passage, Slice, Term};

/// What a layer does with the neurons of one of its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Reader {
    /// What becomes of a change of the input before the parameters are applied.
    pub passage: Passage,
    /// The entries of the layer's parameters that belong to each input neuron: columns of weights.
    pub terms: Vec<Term>,
    /// Whether these entries can compensate a change by any matrix, as the columns of weights can. A trace
    /// finds this where the input meets nothing but products with these weights.
    pub mixes: bool,
}

impl Reader {
    /// No parameter: the output is the input after `passage`.
    pub fn passing(passage: Passage) -> Self {
        Self {
            passage,
            terms: Vec::new(),
            mixes: false,
        }
    }
}

/// How a layer takes part in conservation laws.
///
/// A layer states what writes and what reads:
///
/// ```
/// use emmy::symmetry::{Ports, Slice};
/// // y = x Wᵀ + b with W [5, 3], the first parameter of a model, and b [5], the second: row j of W and entry j
/// // of b write output neuron j, column i of W reads input neuron i.
/// let rows = [Slice::new(0, [1, 5, 3]), Slice::new(1, [1, 5, 1])];
/// let ports = Ports::writes(rows).reads([Slice::new(0, [5, 3, 1])]);
/// assert_eq!(ports.parameters(), [0, 1]);
/// ```
///
/// `writers` write the neurons of the output. A layer without writers makes no new neurons: its output is its
/// first input after a [`Passage`].
///
/// The fields `mixes`, `shifts` and `offsets` say what else is known. A [`Trace`](crate::nn::Trace) completes
/// them from the operations between the parameters and the output of the recorded call, so that a layer
/// states only what these do not show.
#[derive(Debug, Clone, PartialEq)]
pub struct Ports {
    /// The entries that write each output neuron, and the entries that weigh it in the layer's attention.
    pub writers: Vec<Term>,
    /// The entries that read each input neuron; one element per input of the call.
    pub readers: Vec<Reader>,
    /// H if the output neurons are those of H concatenated heads, else 1.
    pub heads: usize,
    /// Whether any matrix may mix the output neurons: there is no function of single neurons between
    /// parameters and output.
    pub mixes: bool,
    /// Slices that can be shifted for all output neurons together, so that only the output changes, by the
    /// same number for all neurons; one law per slice.
    pub shifts: Vec<Slice>,
    /// Changes that add t to each output neuron, the same number in all rows: entries that move by w t, with
    /// their weights w. For a bias that is its entries, with w = 1.
    pub offsets: Vec<Vec<Term>>,
    /// The number of neighbouring output neurons that can only be rescaled together, by one factor: 1, or the
    /// width of a head if the scores of the head are divided by a norm of its neurons.
    pub together: usize,
    /// Laws about neurons inside the layer, such as queries and keys; their names are completed by the path
    /// of the layer.
    pub inside: Vec<Law>,
}

impl Ports {
    /// A layer whose output neurons are written by these slices: rows of weights, entries of biases. It
    /// reads nothing yet.
    pub fn writes(rows: impl IntoIterator<Item = Slice>) -> Self {
        Self {
            writers: rows.into_iter().map(Term::incoming).collect(),
            readers: Vec::new(),
            heads: 1,
            mixes: false,
            shifts: Vec::new(),
            offsets: Vec::new(),
            together: 1,
            inside: Vec::new(),
        }
    }

    /// The same with one more input, whose neurons are read by these slices: columns of weights.
    pub fn reads(self, columns: impl IntoIterator<Item = Slice>) -> Self {
        self.reads_after(Passage::CARRIES, columns)
    }

    /// The same with one more input that is read after an operation with this `passage`, such as a norm.
    pub fn reads_after(
        mut self,
        passage: Passage,
        columns: impl IntoIterator<Item = Slice>,
    ) -> Self {
        self.readers.push(Reader {
            terms: columns.into_iter().map(Term::outgoing).collect(),
            ..Reader::passing(passage)
        });
        self
    }

    /// A layer whose parameters have no part in the laws: its output is its first input after `passage`.
    pub fn passing(passage: Passage) -> Self {
        Self::writes([]).reads_after(passage, [])
    }

    /// A layer of which nothing is known: no law goes through it.
    pub fn opaque(inputs: usize) -> Self {
        Self {
            readers: vec![Reader::passing(Passage::BREAKS); inputs],
            ..Self::writes([])
        }
    }

    /// The numbers of the parameters in these ports, in ascending order.
    pub fn parameters(&self) -> Vec<usize> {
        let read = self.readers.iter().flat_map(|r| &r.terms);
        let inside = self.inside.iter().flat_map(|law| &law.terms);
        let added = self.offsets.iter().flatten();
        let terms = self.writers.iter().chain(read).chain(inside).chain(added);
        let slices = (terms.map(|t| &t.slice)).chain(&self.shifts);
        let mut numbers: Vec<usize> = slices.map(|s| s.parameter).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}
