//! The nearest point of a polyhedron, or the constraints that leave it empty.

use ndarray::{Array1, Array2, s};

/// Below this length a residual counts as zero.
const ZERO: f64 = 1e-10;

/// The most changes of the set of active constraints, per constraint.
const MOST_CHANGES: usize = 8;

/// What is found of {x : G x ≥ h}.
pub(super) enum Found {
    /// About its point with the smallest 2-norm.
    Point(Array1<f64>),
    /// It is empty as far as this computation shows: these rows of G have a combination with positive
    /// factors that is 0, with a positive combination of h.
    Contradiction(Vec<usize>),
    /// Neither, after many steps.
    Nothing,
}

/// Least distance programming by non-negative least squares (Lawson and Hanson, "Solving Least Squares
/// Problems", 1974, chapter 23): with E = \[Gᵀ; hᵀ\], f = (0, …, 0, 1) and the u ≥ 0 that makes r = E u − f
/// smallest, x = −r_{1…n} / r_{n+1}; if r = 0, u is the contradiction.
pub(super) fn nearest(g: &Array2<f64>, h: &Array1<f64>) -> Found {
    let (m, n) = g.dim();
    let mut e = Array2::zeros((n + 1, m));
    e.slice_mut(s![..n, ..]).assign(&g.t());
    e.row_mut(n).assign(h);
    let mut f = Array1::zeros(n + 1);
    f[n] = 1.0;
    let Some(u) = non_negative(&e, &f) else {
        return Found::Nothing;
    };
    let r = e.dot(&u) - &f;
    if length(&r) < ZERO {
        // Smaller factors are rounding.
        let least = ZERO * u.iter().fold(0.0_f64, |m, u| m.max(*u));
        let positive = u.iter().enumerate().filter(|(_, u)| **u > least);
        return Found::Contradiction(positive.map(|(i, _)| i).collect());
    }
    if r[n] == 0.0 {
        return Found::Nothing;
    }
    Found::Point(r.slice(s![..n]).mapv(|x| -x / r[n]))
}

fn length(x: &Array1<f64>) -> f64 {
    x.dot(x).sqrt()
}

/// The u ≥ 0 that makes ‖E u − f‖ smallest; the columns of its positive entries are linearly independent.
/// `None` if it is not found in a number of steps.
fn non_negative(e: &Array2<f64>, f: &Array1<f64>) -> Option<Array1<f64>> {
    let m = e.ncols();
    let mut u = Array1::<f64>::zeros(m);
    let mut active = Columns::default();
    // Those whose gradient is positive by rounding alone, until another one is taken in.
    let mut barred: Vec<usize> = Vec::new();
    for _ in 0..MOST_CHANGES * (m + 1) {
        let rest = f - &e.dot(&u);
        if length(&rest) < ZERO {
            return Some(u);
        }
        let gradient = e.t().dot(&rest);
        let best = (0..m)
            .filter(|i| !active.places.contains(i) && !barred.contains(i))
            .max_by(|a, b| gradient[*a].total_cmp(&gradient[*b]));
        let Some(next) = best.filter(|i| gradient[*i] > 0.0) else {
            return Some(u);
        };
        let gains = |z: Vec<f64>| z[z.len() - 1] > 0.0;
        if !active.push(next, e) || !gains(active.least_squares(f)) {
            active.keep(e, |i| i != next);
            barred.push(next);
            continue;
        }
        barred.clear();
        loop {
            let z = active.least_squares(f);
            if z.iter().all(|z| *z > 0.0) {
                u.fill(0.0);
                (active.places.iter().zip(&z)).for_each(|(i, z)| u[*i] = *z);
                break;
            }
            // As far towards z as all stay at least 0; those that reach 0 leave.
            let part = (active.places.iter().zip(&z))
                .filter(|(_, z)| **z <= 0.0)
                .map(|(i, z)| u[*i] / (u[*i] - z))
                .fold(1.0, f64::min);
            for (i, z) in active.places.iter().zip(&z) {
                u[*i] += part * (z - u[*i]);
            }
            let largest = active.places.iter().fold(0.0_f64, |m, i| m.max(u[*i]));
            let old = active.places.clone();
            active.keep(e, |i| u[i] > 1e-13 * largest);
            let left = old.into_iter().filter(|i| !active.places.contains(i));
            left.for_each(|i| u[i] = 0.0);
        }
    }
    None
}

/// Some columns of a matrix, linearly independent, as Q R with orthonormal columns of Q.
#[derive(Default)]
struct Columns {
    places: Vec<usize>,
    q: Vec<Array1<f64>>,
    /// The columns of R, from the top to the diagonal.
    r: Vec<Vec<f64>>,
}

impl Columns {
    /// Adds a column; false, and nothing is added, if it depends on those that are there.
    fn push(&mut self, place: usize, e: &Array2<f64>) -> bool {
        let mut rest = e.column(place).to_owned();
        let size = length(&rest);
        let mut r = vec![0.0; self.q.len()];
        // Twice, against rounding.
        for _ in 0..2 {
            for (q, r) in self.q.iter().zip(&mut r) {
                let part = q.dot(&rest);
                *r += part;
                rest.scaled_add(-part, q);
            }
        }
        let left = length(&rest);
        if left <= 1e-13 * size {
            return false;
        }
        r.push(left);
        self.places.push(place);
        self.q.push(rest / left);
        self.r.push(r);
        true
    }

    /// Keeps some columns.
    fn keep(&mut self, e: &Array2<f64>, keep: impl Fn(usize) -> bool) {
        let Some(first) = self.places.iter().position(|i| !keep(*i)) else {
            return;
        };
        let behind: Vec<usize> = self.places.drain(first..).filter(|i| keep(*i)).collect();
        self.q.truncate(first);
        self.r.truncate(first);
        for place in behind {
            self.push(place, e);
        }
    }

    /// The z that makes ‖A z − f‖ smallest for these columns A.
    fn least_squares(&self, f: &Array1<f64>) -> Vec<f64> {
        let mut z: Vec<f64> = self.q.iter().map(|q| q.dot(f)).collect();
        for k in (0..z.len()).rev() {
            z[k] /= self.r[k][k];
            let own = z[k];
            (z[..k].iter_mut().zip(&self.r[k])).for_each(|(z, r)| *z -= own * r);
        }
        z
    }
}
