//! The passage of a symmetry: its effect on the output of an operation.
//!
//! A symmetry changes the neurons of a stream, the entries of the last axis of a tensor. An operation can
//! *carry* the change to its output, perhaps in another power; or *absorb* it, if its output does not change;
//! or *break* it, if nothing is known about the change of its output.

/// A kind of change of the neurons x_j of a stream; i numbers the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// x_ij → λ_j x_ij, a factor λ_j > 0 per neuron.
    Each,
    /// x → λ x, one factor λ > 0 for all neurons.
    All,
    /// x_i → g x_i, any invertible matrix g.
    Mix,
    /// x_i → g x_i with gᵀ g = 1.
    Turn,
    /// x_ij → x_ij + t_i, one number per row for all its neurons.
    Shift,
    /// x_ij → x_ij + t_j, one number per neuron for all rows.
    Offset,
    /// x_i → x_i + (λ − 1) P x_i with P = 11ᵀ/n: one factor λ > 0 for the mean of the n neurons of each row;
    /// deviations from the mean stay. It is a special case of [`Mix`](Self::Mix), and of a
    /// [`Shift`](Self::Shift) that adds another number to each row.
    Mean,
}

impl Change {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Each,
        Self::All,
        Self::Mix,
        Self::Turn,
        Self::Shift,
        Self::Offset,
        Self::Mean,
    ];
}

/// What becomes of one kind of change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    /// The output changes alike: by factors λᵏ, by the same matrix, by k times the shift. The number is k, 1
    /// for matrices and for the mean.
    Carries(f64),
    /// The output stays as it is.
    Absorbs,
    /// Nothing is known of the output.
    Breaks,
}

impl Way {
    /// The way through `self`, then through `next`.
    pub fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Carries(k), Self::Carries(m)) => Self::Carries(k * m),
            (Self::Carries(_), next) => next,
            (stopped, _) => stopped,
        }
    }

    /// Whether the change arrives.
    pub fn carries(self) -> bool {
        matches!(self, Self::Carries(_))
    }
}

/// What becomes of every kind of change; the rows of the table in `docs/evidence/conservation.md`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passage([Way; Change::ALL.len()]);

impl Passage {
    /// Everything breaks, as in an operation of which nothing is known.
    pub const BREAKS: Self = Self([Way::Breaks; Change::ALL.len()]);

    /// Everything arrives as it is: the identity.
    pub const CARRIES: Self = Self([Way::Carries(1.0); Change::ALL.len()]);

    /// Nothing arrives: the output does not depend on the stream.
    pub const ABSORBS: Self = Self([Way::Absorbs; Change::ALL.len()]);

    /// A linear map of the rows, the same for every neuron: propagation along a graph, selection of rows,
    /// sums over rows.
    pub const ROWS: Self = Self::CARRIES.with(Change::Offset, Way::Breaks);

    /// A homogeneous function of degree k of single numbers: ReLU with k = 1, a power.
    pub const fn homogeneous(k: f64) -> Self {
        Self::BREAKS
            .with(Change::Each, Way::Carries(k))
            .with(Change::All, Way::Carries(k))
    }

    /// LayerNorm without gain, Ba et al. 2016: its output does not depend on a shift of all neurons, on their
    /// mean or, with `eps` = 0, on their size.
    pub fn layer_norm(eps: f64) -> Self {
        Self::BREAKS
            .with(Change::Shift, Way::Absorbs)
            .with(Change::Mean, Way::Absorbs)
            .with(Change::All, absorbed_at_zero(eps))
    }

    /// RMSNorm without gain, Zhang and Sennrich 2019: its output rotates with the row and, with `eps` = 0,
    /// does not depend on the size of the row.
    pub fn rms_norm(eps: f64) -> Self {
        Self::BREAKS
            .with(Change::Turn, Way::Carries(1.0))
            .with(Change::All, absorbed_at_zero(eps))
    }

    /// A norm of each feature over the rows (batch norm, graph norm that subtracts the whole mean): its
    /// output does not depend on an offset of a neuron or, with `eps` = 0, on the size of a neuron.
    pub fn feature_norm(eps: f64) -> Self {
        Self::BREAKS
            .with(Change::Offset, Way::Absorbs)
            .with(Change::Each, absorbed_at_zero(eps))
            .with(Change::All, absorbed_at_zero(eps))
    }

    /// The same with another way for one kind of change.
    pub const fn with(self, change: Change, way: Way) -> Self {
        let mut ways = self.0;
        ways[change as usize] = way;
        Self(ways)
    }

    /// What becomes of one kind of change.
    pub const fn way(&self, change: Change) -> Way {
        self.0[change as usize]
    }

    /// The passage through `self`, then through `next`.
    pub fn then(self, next: Self) -> Self {
        self.zip(next, |_, a, b| a.then(b))
    }

    /// A passage made of two, by `f` for each kind of change.
    pub(crate) fn zip(self, other: Self, f: impl Fn(Change, Way, Way) -> Way) -> Self {
        Self(Change::ALL.map(|kind| f(kind, self.way(kind), other.way(kind))))
    }
}

/// With eps > 0 the size of the input matters.
fn absorbed_at_zero(eps: f64) -> Way {
    if eps == 0.0 {
        Way::Absorbs
    } else {
        Way::Breaks
    }
}
