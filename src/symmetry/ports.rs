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
    /// Whether these entries can compensate a change by any matrix: true for columns of weights, false for a
    /// gain.
    pub mixes: bool,
}

impl Reader {
    /// The columns of weights, which read the input as it is.
    pub fn linear(columns: impl IntoIterator<Item = Slice>) -> Self {
        Self {
            passage: Passage::CARRIES,
            terms: columns.into_iter().map(Term::outgoing).collect(),
            mixes: true,
        }
    }

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
/// `writers` write the neurons of the output. A layer without writers makes no new neurons: its output is its
/// first input after a [`Passage`].
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
    /// An affine map: rows of `weight` and entries of `bias` write, columns of `weight` read.
    ///
    /// `rows` and `columns` are the weight read both ways, `whole` is the bias read as one neuron.
    pub fn affine(rows: Slice, columns: Slice, bias: Option<(Slice, Slice)>) -> Self {
        let (entries, whole) = bias.unzip();
        let written = std::iter::once(rows).chain(entries.clone());
        Self {
            writers: written.map(Term::incoming).collect(),
            shifts: std::iter::once(columns.clone()).chain(whole).collect(),
            readers: vec![Reader::linear([columns])],
            heads: 1,
            mixes: true,
            offsets: offsets(entries),
            together: 1,
            inside: Vec::new(),
        }
    }

    /// A layer whose parameters have no part in the laws: its output is its first input after `passage`.
    pub fn passing(passage: Passage) -> Self {
        Self {
            writers: Vec::new(),
            readers: vec![Reader::passing(passage)],
            heads: 1,
            mixes: false,
            shifts: Vec::new(),
            offsets: Vec::new(),
            together: 1,
            inside: Vec::new(),
        }
    }

    /// A layer of which nothing is known: no law goes through it.
    pub fn opaque(inputs: usize) -> Self {
        Self {
            readers: vec![Reader::passing(Passage::BREAKS); inputs],
            ..Self::passing(Passage::BREAKS)
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

/// The changes of single biases, for [`Ports::offsets`].
pub(crate) fn offsets(biases: impl IntoIterator<Item = Slice>) -> Vec<Vec<Term>> {
    let alone = |bias| vec![Term::incoming(bias)];
    biases.into_iter().map(alone).collect()
}
