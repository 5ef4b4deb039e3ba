//! Laws and their parts.

use std::ops::Range;

/// The entries of one parameter that belong to n neurons.
///
/// The parameter is read as `[outer, width, inner]`; entry `[o, range.start + j, i]` belongs to neuron j. So
/// the rows of a weight `[out, in]` are `[1, out, in]`, its columns `[out, in, 1]`, and the rows of H
/// averaged heads `[H, C, in]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The number of the parameter in the model's list.
    pub parameter: usize,
    /// How the parameter is read; the product is its number of entries.
    pub shape: [usize; 3],
    /// The part of the middle axis that holds the neurons.
    pub range: Range<usize>,
}

impl Slice {
    /// All of a parameter.
    pub fn new(parameter: usize, shape: [usize; 3]) -> Self {
        Self {
            parameter,
            shape,
            range: 0..shape[1],
        }
    }

    /// n, the number of neurons.
    pub fn neurons(&self) -> usize {
        self.range.len()
    }

    /// The neurons `range` of these.
    ///
    /// # Panics
    /// If there are fewer.
    #[track_caller]
    pub fn narrow(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.neurons(),
            "narrow: neurons {range:?} of {}",
            self.neurons()
        );
        let start = self.range.start;
        Self {
            range: start + range.start..start + range.end,
            ..self.clone()
        }
    }

    /// Every `width` neighbouring neurons read as one.
    ///
    /// # Panics
    /// If the neurons are not whole groups.
    #[track_caller]
    pub fn together(&self, width: usize) -> Self {
        let [outer, all, inner] = self.shape;
        let Range { start, end } = self.range;
        assert!(
            width > 0 && [all, start, end].iter().all(|n| n.is_multiple_of(width)),
            "together: neurons {start}..{end} of {all} in groups of {width}"
        );
        Self {
            parameter: self.parameter,
            shape: [outer, all / width, inner * width],
            range: start / width..end / width,
        }
    }

    /// The number of entries of the parameter.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The contiguous ranges of the parameter that hold these entries, one for each index of the outer axis.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let [outer, width, inner] = self.shape;
        let Range { start, end } = self.range;
        (0..outer).map(move |o| (o * width + start) * inner..(o * width + end) * inner)
    }
}

/// The side of a neuron to which an entry belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Incoming entries: rows of a weight, a bias, a gain.
    Incoming,
    /// Entries that weigh the neuron in an attention score.
    Attention,
    /// Outgoing entries: columns of the weights that read the neuron.
    Outgoing,
}

/// Entries of one parameter with their side and weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The entries.
    pub slice: Slice,
    /// Their side.
    pub side: Side,
    /// w: under a [`Symmetry::Rescaling`] by λ the entries are multiplied by λ^w, under a
    /// [`Symmetry::Translation`] by t they grow by w t. In laws of matrices only the side counts.
    pub weight: f64,
    /// Whether only their mean over the neurons counts, see [`mean`](Self::mean).
    pub mean: bool,
    /// c: the entries M are those of W + c I, see [`beside_identity`](Self::beside_identity).
    pub identity: f64,
}

impl Term {
    /// A term of incoming entries, w = 1.
    pub fn incoming(slice: Slice) -> Self {
        Self {
            slice,
            side: Side::Incoming,
            weight: 1.0,
            mean: false,
            identity: 0.0,
        }
    }

    /// A term of entries that weigh the neuron in an attention score, w = −1.
    pub fn attention(slice: Slice) -> Self {
        Self {
            slice,
            side: Side::Attention,
            weight: -1.0,
            mean: false,
            identity: 0.0,
        }
    }

    /// A term of outgoing entries, w = −1.
    pub fn outgoing(slice: Slice) -> Self {
        Self {
            slice,
            side: Side::Outgoing,
            weight: -1.0,
            mean: false,
            identity: 0.0,
        }
    }

    /// A term of entries that do not change, w = 0: it adds nothing to δ. In a law of
    /// [`Symmetry::Translation`] about single entries, no other gradient cancels theirs. The gradient of
    /// these entries gives the size in comparison with which their gradient is zero.
    pub fn reference(slice: Slice) -> Self {
        Self {
            slice,
            side: Side::Incoming,
            weight: 0.0,
            mean: false,
            identity: 0.0,
        }
    }

    /// The same term with k times the weight, for the weights that read a neuron after an activation that is
    /// homogeneous of degree k.
    pub fn times(self, k: f64) -> Self {
        Self {
            weight: k * self.weight,
            ..self
        }
    }

    /// The neurons `range` of this term.
    ///
    /// # Panics
    /// If there are fewer.
    #[track_caller]
    pub fn narrow(&self, range: Range<usize>) -> Self {
        Self {
            slice: self.slice.narrow(range),
            ..self.clone()
        }
    }

    /// The term with all its neurons as one; none if it does not cover the whole parameter.
    pub(crate) fn as_one_neuron(&self) -> Option<Self> {
        let Slice {
            parameter,
            shape,
            ref range,
        } = self.slice;
        let slice = Slice::new(parameter, [1, 1, shape.iter().product()]);
        (*range == (0..shape[1])).then(|| Self {
            slice,
            ..self.clone()
        })
    }

    /// The part of the entries that is the same for all n neurons: P M in place of M, P = 11ᵀ/n, as a term
    /// of one neuron. Under a [`Symmetry::Rescaling`] by λ it is multiplied by λ^w, and the rest stays:
    /// M → M + (λ^w − 1) P M. It adds w ⟨P M, N⟩ to δ and w ‖P M‖² to c.
    ///
    /// Such terms are in laws about the mean of a stream, which a LayerNorm removes.
    pub fn mean(self) -> Self {
        Self { mean: true, ..self }
    }

    /// The same entries of W + c I, for a square weight W beside which the layer also passes on c times its
    /// input: under a [`Symmetry::Rescaling`] by λ it is W + c I that is multiplied by λ^w, and δ has
    /// ⟨(W + c I)_j, G⟩ where it has ⟨W_j, G⟩ for c = 0.
    ///
    /// # Panics
    /// If the parameter cannot be a square matrix, or c is not finite.
    #[track_caller]
    pub fn beside_identity(self, c: f64) -> Self {
        let entries = self.slice.len();
        assert!(
            entries == entries.isqrt().pow(2) && c.is_finite(),
            "beside_identity: c = {c} beside a parameter of {entries} entries: it must be a square matrix"
        );
        Self {
            identity: c,
            ..self
        }
    }

    /// Whether the term has W + c I in place of W, with c ≠ 0.
    pub(crate) fn is_shifted(&self) -> bool {
        self.identity != 0.0
    }

    /// c where entry number `entry` of the parameter is on the diagonal, else 0.
    pub(crate) fn added_to(&self, entry: usize) -> f64 {
        match self.is_shifted() && entry.is_multiple_of(self.slice.len().isqrt() + 1) {
            true => self.identity,
            false => 0.0,
        }
    }

    /// The number of neurons of the term: those of the slice, or 1 for their mean.
    pub fn neurons(&self) -> usize {
        if self.mean { 1 } else { self.slice.neurons() }
    }
}

/// The changes of the parameters that leave the loss as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symmetry {
    /// Each neuron on its own, for every λ > 0: M_j → λ^w M_j.
    Rescaling,
    /// The whole space of neurons, for every invertible g: M → g M for incoming entries, M → g⁻ᵀ M for
    /// attention and outgoing entries.
    Linear,
    /// Only g with gᵀ g = 1.
    Rotation,
    /// Each neuron on its own, for every t: every entry of M_j plus w t.
    Translation,
}

/// A symmetry of a network, and so an identity between its parameters and gradients: δ = 0.
///
/// ```
/// use emmy::nn::{Activation, Mlp, Module, Pass, Traced};
/// use emmy::{Tape, init};
/// let net = Mlp::<f64>::new(&[3, 4, 2], Activation::Relu, true, &mut init::rng(0));
/// let law = net.laws().remove(0);
/// let tape = Tape::new();
/// let pass = Pass::train(&tape, &net, 0);
/// let x = tape.constant(init::normal(&[5, 3], 1.0, &mut init::rng(1)));
/// let gradients = pass.gradients(net.forward(&pass, x).square().sum_all());
/// assert!(law.measure(&net.tensors(), &gradients).worst() < 1e-12);
/// // One c per hidden neuron: what gradient descent hardly changes.
/// assert_eq!(law.balance(&net.tensors()).unwrap().len(), 4);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Law {
    /// The name for readers: "layer 3, head 2, neurons".
    pub name: String,
    /// The number of the layer whose neurons the law is about, from 1.
    pub layer: usize,
    /// The changes that leave the loss as it is.
    pub symmetry: Symmetry,
    /// The parameters that these changes affect.
    pub terms: Vec<Term>,
}

impl Law {
    /// A law about the neurons of `terms`.
    ///
    /// # Panics
    /// If there is no term, they are not about equally many neurons, a slice has neurons outside its shape,
    /// a term of the mean stands in a law that is not of rescaling, or an identity in a law of translation.
    #[track_caller]
    pub fn new(
        name: impl Into<String>,
        layer: usize,
        symmetry: Symmetry,
        terms: Vec<Term>,
    ) -> Self {
        let name = name.into();
        let sizes: Vec<usize> = terms.iter().map(Term::neurons).collect();
        assert!(
            !sizes.is_empty() && sizes.iter().all(|&n| n == sizes[0]),
            "{name}: terms of {sizes:?} neurons: all must have as many, and there must be one"
        );
        assert!(
            symmetry == Symmetry::Rescaling || terms.iter().all(|term| !term.mean),
            "{name}: a term of the mean in a law that is not of rescaling"
        );
        assert!(
            symmetry != Symmetry::Translation || !terms.iter().any(Term::is_shifted),
            "{name}: an identity beside a weight in a law of translation, which adds to the weight itself"
        );
        for Slice { shape, range, .. } in terms.iter().map(|t| &t.slice) {
            assert!(
                range.start <= range.end && range.end <= shape[1],
                "{name}: neurons {range:?} of a parameter read as {shape:?}, which has {}",
                shape[1]
            );
        }
        Self {
            name,
            layer,
            symmetry,
            terms,
        }
    }

    /// n, the number of neurons.
    pub fn neurons(&self) -> usize {
        self.terms[0].neurons()
    }

    /// The number of entries of δ: n, or n² for a matrix.
    pub fn entries(&self) -> usize {
        match self.symmetry {
            Symmetry::Rescaling | Symmetry::Translation => self.neurons(),
            Symmetry::Linear | Symmetry::Rotation => self.neurons().pow(2),
        }
    }

    /// Returns `found`, the tensor given for a slice's parameter, after checking that it has as many entries
    /// as the law says.
    ///
    /// # Panics
    /// If it has another number of entries, or there is none.
    #[track_caller]
    pub(crate) fn find<T>(&self, slice: &Slice, found: Option<T>, len: impl Fn(&T) -> usize) -> T {
        let (k, expected) = (slice.parameter, slice.len());
        let Some(found) = found else {
            panic!("{}: there is no parameter {k}", self.name);
        };
        assert_eq!(
            len(&found),
            expected,
            "{}: parameter {k} has not the {expected} entries the law speaks of",
            self.name
        );
        found
    }

    /// The terms of one side.
    pub fn side(&self, side: Side) -> impl Iterator<Item = &Term> {
        self.terms.iter().filter(move |term| term.side == side)
    }
}
