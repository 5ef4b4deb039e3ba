//! The relation of a node to a stream of neurons, and those of sums and products.

use crate::symmetry::{Change, Passage, Way};

/// The relation of a node to the stream of neurons from which it is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Relation {
    /// The stream; none for a node that no stream reaches, such as data and constants.
    pub stream: Option<usize>,
    /// The passage from the stream to this node: what becomes of each kind of change on the way.
    pub passage: Passage,
    /// The node whose shift is the unit. Shifts cancel only if they have the same unit, as in x −
    /// mean x.
    pub shift_base: usize,
    /// The node whose offset is the unit.
    pub offset_base: usize,
}

impl Relation {
    /// The relation of a node that does not change with any stream.
    pub const FIXED: Self = Self {
        stream: None,
        passage: Passage::ABSORBS,
        shift_base: usize::MAX,
        offset_base: usize::MAX,
    };

    /// The relation of a node that changes in an unknown way.
    pub const BROKEN: Self = Self {
        stream: Some(0),
        passage: Passage::BREAKS,
        ..Self::FIXED
    };

    /// The relation behind an operation with this passage.
    pub fn behind(self, passage: Passage) -> Self {
        Self {
            passage: self.passage.then(passage),
            ..self
        }
    }

    /// The same relation, in units of the shift that arrives at node `id`.
    pub fn shift_anew(self, id: usize) -> Self {
        Self {
            passage: unit(self.passage, Change::Shift),
            shift_base: id,
            ..self
        }
    }

    /// The same relation, in units of the offset that arrives at node `id`.
    pub fn offset_anew(self, id: usize) -> Self {
        Self {
            passage: unit(self.passage, Change::Offset),
            offset_base: id,
            ..self
        }
    }

    /// Whether both count changes of this kind in the same unit; only shifts and offsets have
    /// units.
    pub fn comparable(&self, other: &Self, change: Change) -> bool {
        match change {
            Change::Shift => self.shift_base == other.shift_base,
            Change::Offset => self.offset_base == other.offset_base,
            _ => true,
        }
    }
}

/// The passage in which changes of this kind, if they arrive, count as 1.
fn unit(passage: Passage, change: Change) -> Passage {
    match passage.way(change) {
        Way::Carries(_) => passage.with(change, Way::Carries(1.0)),
        _ => passage,
    }
}

/// What becomes of a change if either operand may have changed.
pub(super) fn worse(a: Way, b: Way) -> Way {
    match (a, b) {
        (Way::Breaks, _) | (_, Way::Breaks) => Way::Breaks,
        (Way::Absorbs, b) => b,
        (a, _) => a,
    }
}

/// What becomes of a change if both operands must have changed alike.
pub(super) fn equal(a: Way, b: Way) -> Way {
    if a == b { a } else { Way::Breaks }
}

/// The relation of a + c b, computed with rounding errors of ε.
pub(super) fn sum(id: usize, a: Relation, b: Relation, c: f64, epsilon: f64) -> Relation {
    let passage = a
        .passage
        .zip(b.passage, |change, x, y| match (change, x, y) {
            (_, Way::Breaks, _) | (_, _, Way::Breaks) => Way::Breaks,
            (Change::Shift | Change::Offset, Way::Carries(x), Way::Carries(y))
                if a.comparable(&b, change) =>
            {
                let total = x + c * y;
                // The factor 1/d of a mean is rounded in the type of the model.
                match total.abs() <= 8.0 * epsilon * (x.abs() + y.abs()) {
                    true => Way::Absorbs,
                    false => Way::Carries(total),
                }
            }
            (Change::Shift | Change::Offset, Way::Absorbs, Way::Carries(y)) => Way::Carries(c * y),
            (Change::Shift | Change::Offset, x, y) => worse(x, y),
            (_, x, y) => equal(x, y),
        });
    // The unit is that of the operand that changes. If both change, and are not comparable, the sum
    // has a new unit.
    let moved = |r: &Relation, change| r.passage.way(change).carries();
    let base = |change, of: fn(&Relation) -> usize| match (moved(&a, change), moved(&b, change)) {
        (false, true) => of(&b),
        (true, true) if of(&a) != of(&b) => id,
        _ => of(&a),
    };
    let sum = Relation {
        stream: a.stream.or(b.stream),
        passage,
        shift_base: base(Change::Shift, |r| r.shift_base).min(id),
        offset_base: base(Change::Offset, |r| r.offset_base),
    };
    let sum = if sum.shift_base == id {
        sum.shift_anew(id)
    } else {
        sum
    };
    if sum.offset_base == id {
        sum.offset_anew(id)
    } else {
        sum
    }
}

/// What becomes of a change in a · b, or with the sign −1 in a / b; `uniform` states for each operand whether
/// it is the same for all neurons.
pub(super) fn product(change: Change, a: Way, b: Way, sign: f64, uniform: [bool; 2]) -> Way {
    use Way::{Absorbs, Breaks, Carries};
    let quotient = sign < 0.0;
    match (change, a, b) {
        (_, Breaks, _) | (_, _, Breaks) => Breaks,
        (_, Absorbs, Absorbs) => Absorbs,
        (Change::Each | Change::All, a, b) => {
            let degree = |way| if let Carries(k) = way { k } else { 0.0 };
            match degree(a) + sign * degree(b) {
                k if k.abs() < 1e-9 => Absorbs,
                k => Carries(k),
            }
        }
        // A factor per row does not mix neurons, and a shift of all neurons of a row stays a shift.
        (Change::Mix | Change::Turn | Change::Mean | Change::Shift, Carries(_), Absorbs)
            if uniform[1] =>
        {
            a
        }
        (Change::Mix | Change::Turn | Change::Mean | Change::Shift, Absorbs, Carries(_))
            if uniform[0] && !quotient =>
        {
            b
        }
        _ => Breaks,
    }
}
