//! The rounding errors of sums, products, functions and maps; the letters are those of `rules.rs`.

use super::numbers::{combine, pairs, raised, sums, times, tiny, unit};
use super::rules::{Found, Made};
use super::state::Walk;
use crate::autodiff::{Function, Map, jvp};
use crate::lipschitz::rules::most_frequent;
use crate::lipschitz::sparse::degrees;
use crate::real::Real;
use crate::tensor::Tensor;

impl<F: Real> Walk<'_, F> {
    /// y = c x + d, one of which is not there: E = |c| E_x + u |ŷ|.
    pub(super) fn affine(&self, id: usize, c: f64, d: f64, rounded: bool) -> Found<Made> {
        let a = self.operand(self.tape.node(id).args[0])?;
        let (c, d) = (c.abs(), d.abs());
        let scaled = |x: &Tensor<f64>| x.mapv(|x| times(c, x)).into_shared();
        let most = scaled(&a.size).mapv(|s| raised(s + d, 1)).into_shared();
        let own = match rounded {
            true => self.once(id, &most),
            false => most.mapv(|_| 0.0).into_shared(),
        };
        Ok(Made {
            error: pairs(&scaled(&a.error), &own, |e, own| raised(e + own, 1)),
            moved: scaled(&a.moved),
            most,
        })
    }

    /// y = a ± b: E = E_a + E_b + u |ŷ|.
    pub(super) fn sum(&self, id: usize) -> Found<Made> {
        let [a, b] = self.operands(id)?;
        let plus = |a: &_, b: &_| pairs(a, b, |a, b| raised(a + b, 1));
        let most = plus(&a.size, &b.size);
        let own = self.once(id, &most);
        Ok(Made {
            error: plus(&plus(&a.error, &b.error), &own),
            moved: plus(&a.moved, &b.moved),
            most,
        })
    }

    /// One rounding of the value of a node, whose exact size is at most `most` at the inputs of the set.
    fn once(&self, id: usize, most: &Tensor<f64>) -> Tensor<f64> {
        let size = match self.around() {
            true => most.clone(),
            // |fl(z) − z| ≤ u |fl(z)|.
            false => self.absolute(id),
        };
        size.mapv(|s| raised(unit::<F>() * s + tiny::<F>(), 2))
            .into_shared()
    }

    /// A sum of n products of entries of a and of b, `product` with absolute values in place of entries:
    /// E = γ_n S_a S_b + E_a (S_b + E_b) + S_a E_b, since â b̂ − a b = (â − a) b + â (b̂ − b).
    pub(super) fn products(
        &self,
        id: usize,
        n: usize,
        product: impl Fn(&Tensor<f64>, &Tensor<f64>) -> Tensor<f64>,
    ) -> Found<Made> {
        let [a, b] = self.operands(id)?;
        let [moves_a, moves_b] = [0, 1].map(|k| self.moves(self.tape.node(id).args[k]));
        let most = product(&a.size, &b.size);
        let most = most.mapv(|m| raised(m, n + 1)).into_shared();
        let share = sums::<F>(n).ok_or("its sums are too long for this type of numbers")?;
        let lost = raised(2.0 * n as f64 * tiny::<F>(), 2);
        let mut error = most.mapv(|m| raised(share * m + lost, 2)).into_shared();
        let mut moved = most.mapv(|_| 0.0).into_shared();
        let add = |sum: &mut Tensor<f64>, term: Tensor<f64>| {
            *sum = pairs(sum, &term, |sum, term| raised(sum + raised(term, n + 1), 1));
        };
        if moves_a {
            let with = pairs(&b.size, &b.error, |s, e| raised(s + e, 1));
            add(&mut error, product(&a.error, &with));
        }
        if moves_b {
            add(&mut error, product(&a.size, &b.error));
        }
        // a(x′) b(x′) − a(x) b(x) = (a(x′) − a(x)) b(x′) + a(x) (b(x′) − b(x)).
        if self.around() && moves_a {
            add(&mut moved, product(&a.moved, &b.size));
        }
        if self.around() && moves_b {
            add(&mut moved, product(&a.size, &b.moved));
        }
        let most = most.mapv(|m| raised(m * (1.0 + share), 1)).into_shared();
        Ok(Made { error, moved, most })
    }

    /// y = a / b: a/b − â/b̂ = ((â/b̂) (b̂ − b) − (â − a)) / b, if b keeps away from 0.
    pub(super) fn quotient(&self, id: usize) -> Found<Made> {
        let [a, b] = self.operands(id)?;
        let divisor = self.absolute(self.tape.node(id).args[1]);
        let least = combine([&divisor, &b.moved, &b.error], |[b, v, e]| {
            let away = raised(v + 2.0 * e, 3);
            (b - away).next_down()
        });
        if least.iter().any(|&b| b <= 0.0) {
            return Err("a division by something that may be 0".into());
        }
        let by = |x: &Tensor<f64>| pairs(x, &least, |x, b| raised(x / b, 1));
        let most = by(&a.size);
        let own = self.once(id, &most);
        // |â/b̂|, from the rounded one where that is known.
        let ratio = match self.around() {
            true => most.clone(),
            false => pairs(&self.absolute(id), &own, |y, own| raised(y + own, 1)),
        };
        let through = |of_a: &Tensor<f64>, of_b: &Tensor<f64>| {
            let of_b = pairs(&ratio, of_b, times);
            by(&pairs(of_a, &of_b, |a, b| raised(a + b, 1)))
        };
        Ok(Made {
            error: pairs(&through(&a.error, &b.error), &own, |e, own| {
                raised(e + own, 1)
            }),
            moved: through(&a.moved, &b.moved),
            most,
        })
    }

    /// y = f(x): E = E_x times the largest slope between x̂ and x, and the roundings of f.
    pub(super) fn entrywise(&self, id: usize, function: &Function) -> Found<Made> {
        let roundings = function.roundings;
        let roundings = f64::from(roundings.ok_or("its rounding error is not known")?);
        let x = self.tape.node(id).args[0];
        let a = self.operand(x)?;
        let away = match self.around() {
            true => pairs(&a.moved, &a.error, |v, e| raised(v + 2.0 * e, 3)),
            false => a.error.clone(),
        };
        let at = self.tape.value(x).mapv(Real::as_f64).into_shared();
        let slope = pairs(&at, &away, |x, away| {
            if away == 0.0 {
                return 0.0;
            }
            let [low, high] = function.slopes_on((x - away).next_down(), (x + away).next_up());
            low.abs().max(high.abs())
        });
        if slope.iter().any(|s| !s.is_finite()) {
            return Err("its slope has no limit where its argument may be".into());
        }
        let along = |x: &Tensor<f64>| pairs(&slope, x, times);
        let value = self.absolute(id);
        let most = match self.around() {
            true => pairs(&value, &along(&away), |y, more| raised(y + more, 1)),
            false => value,
        };
        // f(x̂) itself is a little further from 0 than the computed value.
        let own = |s: f64| {
            let once = (unit::<F>() * s + tiny::<F>()) * (1.0 + 1e-5);
            times(roundings, raised(once, 4))
        };
        Ok(Made {
            error: pairs(&along(&a.error), &most, |e, s| raised(e + own(s), 1)),
            moved: along(&a.moved),
            most,
        })
    }

    /// Maps whose coefficients are 0 and 1: the map itself is applied to E and V.
    pub(super) fn linear(&self, id: usize, map: &Map) -> Found<Made> {
        let (x, count) = (self.tape.node(id).args[0], self.tape.handle(id).len());
        let terms = match map {
            Map::Reshape
            | Map::Permute { .. }
            | Map::Slice { .. }
            | Map::Pad { .. }
            | Map::Broadcast
            | Map::Select { .. }
            | Map::GatherRows(_)
            | Map::GatherColumns(_) => 1,
            Map::Sum | Map::SumTo => self.tape.handle(x).len() / count.max(1),
            Map::Scatter { indices, .. } => most_frequent(indices),
            Map::SegmentSum(pattern) => degrees(pattern).0,
            Map::SegmentSumColumns(pattern) => degrees(pattern).1,
            Map::Rotate => return Err("the rounding errors of its angles are not known".into()),
            Map::Own { .. } => return Err("nothing is known of its rounding errors".into()),
        };
        let a = self.operand(x)?;
        let share = sums::<F>(terms).ok_or("its sums are too long for this type of numbers")?;
        let [x, y] = [x, id].map(|id| self.tape.handle(id));
        // In the type of the model, so each entry is raised to one of its numbers first.
        let mapped = |of: &Tensor<f64>| {
            let up = |e: f64| match e == 0.0 {
                true => F::zero(),
                false => {
                    F::of(raised(e * (1.0 + 4.0 * unit::<F>()), 2)).max(F::min_positive_value())
                }
            };
            let sums = jvp(y, &[x], &[of.mapv(up).into_shared()]);
            let back = |s: F| match terms {
                1 => s.as_f64(),
                _ => raised(s.as_f64() * (1.0 + 2.0 * share), 2),
            };
            sums.mapv(back).into_shared()
        };
        let (error, most) = (mapped(&a.error), mapped(&a.size));
        let error = match terms {
            0 | 1 => error,
            n => pairs(&error, &most, |e, s| {
                raised(e + share * s + 2.0 * n as f64 * tiny::<F>(), 4)
            }),
        };
        let moved = match self.around() {
            true => mapped(&a.moved),
            false => most.mapv(|_| 0.0).into_shared(),
        };
        Ok(Made { error, moved, most })
    }
}
