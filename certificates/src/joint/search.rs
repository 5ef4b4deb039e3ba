//! The search for multipliers: a barrier method with Newton steps.

use super::cholesky::{Blocks, Factor, starts};
use super::{Network, Read};
use crate::kernels::gemm::matmul;
use crate::linalg::power_iteration;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, CowArray, Ix2, NewAxis, Zip, s};
use std::ops::Range;

/// The search ends when τ is above its smallest value by at most this part.
const GAP: f64 = 1e-5;

/// Points whose τ is above its smallest value by at most this part are kept on the way.
const WIDEST: f64 = 0.1;

/// The factor by which the weight of τ grows.
const GROWTH: f64 = 8.0;

/// Newton's method at one weight ends when the square of the decrement is below this number, at the last
/// weight below the second.
const NEAR: f64 = 0.5;
const NEAREST: f64 = 0.02;

/// A Newton step is taken if P is still positive definite so many times further. A step that ends closer to
/// the border of the domain leaves P nearly singular in one direction, and each of the next steps does little
/// but double its smallest eigenvalue. Without this condition a network with 65 layers has most of its steps
/// at the first weight.
const BORDER: f64 = 1.3;

/// The rows of a block of the second derivatives.
const CHUNK: usize = 256;

/// By how much the diagonal of the second derivatives is raised, from the first number on, until they are
/// positive definite in spite of rounding.
const DAMPING: [f64; 6] = [0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0];

/// The most Newton steps. What is found until then is a bound too.
const MOST_STEPS: usize = 2000;

/// Λ and τ.
#[derive(Clone)]
pub(super) struct Point {
    pub multipliers: Vec<f64>,
    pub square: f64,
}

/// −ln det P(Λ, τ), and −ln λ for neurons whose λ P does not keep positive.
pub(super) struct Barrier<'a> {
    network: &'a Network,
    sizes: Vec<usize>,
    /// The first row of each block in P.
    starts: Vec<usize>,
    slopes: Vec<[f64; 2]>,
    /// 1 for neurons with −ln λ, else 0. A diagonal entry of P is at most λ if l u ≤ 0, so only a neuron with
    /// l u > 0 needs it.
    logs: Vec<f64>,
    /// What a multiplier costs: 1 for the inputs of a network that have multipliers, which are neurons that
    /// read nothing, else 0.
    costs: Vec<f64>,
}

impl<'a> Barrier<'a> {
    pub fn new(network: &'a Network) -> Self {
        let sizes = network.sizes();
        let slopes: Vec<[f64; 2]> = network
            .layers
            .iter()
            .flat_map(|l| l.slopes.iter().copied())
            .collect();
        let logs = slopes
            .iter()
            .map(|[l, u]| f64::from(u8::from(l * u > 0.0)))
            .collect();
        let costs = network.layers.iter().flat_map(|layer| {
            let cost = f64::from(u8::from(layer.reads.is_empty()));
            std::iter::repeat_n(cost, layer.slopes.len())
        });
        Self {
            network,
            costs: costs.collect(),
            starts: starts(&sizes),
            sizes,
            slopes,
            logs,
        }
    }

    /// The point at which the barrier method ends: τ is near its smallest value.
    pub fn minimum(&self) -> Option<Point> {
        self.path()?.pop()
    }

    /// The last points of the barrier method, one per weight of τ. The earlier ones have a larger τ, and P is
    /// further from singular there.
    pub fn path(&self) -> Option<Vec<Point>> {
        let mut at = self.with_smallest(&self.start()?)?;
        if !(at.square > 0.0 && at.square.is_finite()) {
            return None;
        }
        let degree = self.degree();
        let mut weight = self.network.outputs() as f64 / at.square;
        let (mut steps, mut path) = (0, Vec::new());
        loop {
            let last = degree / weight <= GAP * at.square;
            let near = if last { NEAREST } else { NEAR };
            while steps < MOST_STEPS {
                steps += 1;
                match self.newton(&at, weight, near) {
                    Some(next) => at = next,
                    None => break,
                }
            }
            if degree / weight <= WIDEST * at.square || steps == MOST_STEPS {
                path.push(at.clone());
            }
            if last || steps == MOST_STEPS {
                return Some(path);
            }
            weight *= GROWTH;
            // These multipliers may prove a far smaller τ than the one that the weight has led to.
            if let Some(next) = self.with_smallest(&at.multipliers)
                && self.cost(&next) < self.cost(&at)
            {
                weight = weight.max(self.network.outputs() as f64 / next.square);
                at = next;
            }
        }
    }

    /// These multipliers with twice the smallest τ. If some of them are those of inputs, then scaled so that
    /// τ = Σ t: the sum τ + Σ t is the smallest for the same τ Σ t there.
    fn with_smallest(&self, multipliers: &[f64]) -> Option<Point> {
        let at = Point {
            multipliers: multipliers.to_vec(),
            square: 2.0 * self.reached(multipliers)?,
        };
        let size = self.size(&at);
        Some(match size > 0.0 {
            true => scaled(&at, (at.square / size).sqrt()),
            false => at,
        })
    }

    /// Σ t, over the inputs that have multipliers.
    fn size(&self, at: &Point) -> f64 {
        let each = at.multipliers.iter().zip(&self.costs);
        each.map(|(l, cost)| cost * l).sum()
    }

    /// The point with Σ t = 1 that proves the same, if there are such inputs.
    pub fn of_size_one(&self, at: Point) -> Point {
        match self.size(&at) {
            size if size > 0.0 => scaled(&at, size.recip()),
            _ => at,
        }
    }

    /// What is minimised, but for the barrier: τ, or τ + Σ t.
    fn cost(&self, at: &Point) -> f64 {
        at.square + self.size(at)
    }

    /// N, the rows of P and the logarithms.
    fn degree(&self) -> f64 {
        self.starts[self.sizes.len()] as f64 + self.logs.iter().sum::<f64>()
    }

    /// The neurons of layer k, counted over all layers from 0.
    pub fn neurons(&self, k: usize) -> Range<usize> {
        self.starts[k + 1] - self.starts[1]..self.starts[k + 2] - self.starts[1]
    }

    /// The rows of block j in P.
    pub fn rows(&self, j: usize) -> Range<usize> {
        self.starts[j]..self.starts[j + 1]
    }

    /// M(Λ) of the first `layers` layers.
    fn form(&self, multipliers: &[f64], layers: usize, sizes: &[usize]) -> Blocks {
        let mut p = Blocks::zeros(sizes);
        p.at(0, 0).diag_mut().fill(1.0);
        for (k, layer) in self.network.layers[..layers].iter().enumerate() {
            let own = &multipliers[self.neurons(k)];
            for (d, l) in p.at(k + 1, k + 1).diag_mut().iter_mut().zip(own) {
                *d += l;
            }
            let scaled = |a: &Array2<f64>, of: fn([f64; 2]) -> f64| {
                let factors = layer
                    .slopes
                    .iter()
                    .zip(own)
                    .map(|(slopes, l)| of(*slopes) * l);
                a * &factors.collect::<Array1<f64>>().insert_axis(Axis(1))
            };
            for (j, a) in &layer.reads {
                *p.at(k + 1, *j) -= &scaled(a, |[l, u]| 0.5 * (l + u));
            }
            if layer.slopes.iter().all(|[l, u]| l * u == 0.0) {
                continue;
            }
            for (i, a) in &layer.reads {
                let a = scaled(a, |[l, u]| l * u);
                for (j, b) in layer.reads.iter().filter(|(j, _)| j <= i) {
                    *p.at(*i, *j) += &matmul(a.t(), b.view());
                }
            }
        }
        p
    }

    /// P(Λ, τ).
    pub fn matrix(&self, at: &Point) -> Blocks {
        let layers = self.network.layers.len();
        let mut p = self.form(&at.multipliers, layers, &self.sizes);
        for (j, c) in &self.network.output {
            *p.at(layers + 1, *j) += c;
        }
        p.at(layers + 1, layers + 1).diag_mut().fill(at.square);
        p
    }

    /// A M⁻¹ Aᵀ for maps A that read the first blocks.
    fn through(&self, multipliers: &[f64], layers: usize, maps: &[Read]) -> Option<Array2<f64>> {
        let factor = self
            .form(multipliers, layers, &self.sizes[..=layers])
            .cholesky()?;
        let mut a = Array2::zeros((self.starts[layers + 1], maps[0].1.nrows()));
        for (j, map) in maps {
            let mut rows = a.slice_mut(s![self.rows(*j), ..]);
            rows += &map.t();
        }
        let mut solved = a.clone();
        factor.solve(&mut solved);
        Some(matmul(a.t(), solved.view()))
    }

    /// The smallest τ for these multipliers.
    pub fn reached(&self, multipliers: &[f64]) -> Option<f64> {
        let all = self.through(multipliers, self.network.layers.len(), &self.network.output)?;
        Some(largest_eigenvalue(&all))
    }

    /// Multipliers for which M is positive definite, equal within each layer: about 2 / ‖A M⁻¹ Aᵀ‖, the
    /// choice of ECLipsE-Fast (Xu and Sivaranjani, "ECLipsE", NeurIPS 2024), or a smaller number.
    fn start(&self) -> Option<Vec<f64>> {
        let mut all = Vec::new();
        for (k, layer) in self.network.layers.iter().enumerate() {
            if layer.reads.is_empty() {
                all.extend(std::iter::repeat_n(1.0, layer.slopes.len()));
                continue;
            }
            let norm = largest_eigenvalue(&self.through(&all, k, &layer.reads)?);
            let steepest = layer
                .slopes
                .iter()
                .map(|[l, u]| (u + l).powi(2).max((u - l).powi(2)));
            let steepest = steepest.fold(f64::MIN_POSITIVE, f64::max);
            let mut each = (2.0 / (norm * steepest)).min(1e100);
            loop {
                let mut next = all.clone();
                next.extend(std::iter::repeat_n(each, layer.slopes.len()));
                if self
                    .form(&next, k + 1, &self.sizes[..k + 2])
                    .cholesky()
                    .is_some()
                {
                    all = next;
                    break;
                }
                each *= 0.5;
                if each < 1e-200 {
                    return None;
                }
            }
        }
        Some(all)
    }

    /// The barrier at a point, and the factor of P; `None` outside its domain.
    fn value(&self, at: &Point) -> Option<(f64, Factor)> {
        let positive = |x: f64| x > 0.0;
        if !(positive(at.square) && at.multipliers.iter().all(|l| positive(*l))) {
            return None;
        }
        let factor = self.matrix(at).cholesky()?;
        let logs: f64 = at
            .multipliers
            .iter()
            .zip(&self.logs)
            .map(|(l, of)| of * l.ln())
            .sum();
        Some((-factor.log_det() - logs, factor))
    }

    /// One Newton step on w (τ + Σ t) + barrier, with a search along it; `None` if the point is near the
    /// minimum, or as near as rounding allows.
    fn newton(&self, at: &Point, weight: f64, near: f64) -> Option<Point> {
        let (barrier, factor) = self.value(at)?;
        let (gradient, hessian) = self.derivatives(at, weight, &factor.inverse());
        let mut step = (-&gradient).insert_axis(Axis(1));
        let mut factors = DAMPING.iter().map(|by| hessian.damped(*by).cholesky());
        factors.find_map(|factor| factor)?.solve(&mut step);
        let step = step.remove_axis(Axis(1));
        let decrement = -gradient.dot(&step);
        if decrement < near {
            return None;
        }
        let before = weight * self.cost(at) + barrier;
        let along = |length: f64| {
            let moved = |x: f64, by: f64| x * (1.0 + length * by);
            let multipliers = at.multipliers.iter().zip(&step);
            let next = Point {
                multipliers: multipliers.map(|(l, d)| moved(*l, *d)).collect(),
                square: moved(at.square, step[step.len() - 1]),
            };
            let (barrier, _) = self.value(&next)?;
            Some((weight * self.cost(&next) + barrier, next))
        };
        let mut length = 1.0;
        while length > 1e-8 {
            let found =
                along(length).filter(|(value, _)| *value <= before - 0.1 * length * decrement);
            if let Some((_, next)) = found
                && along(BORDER * length).is_some()
            {
                return Some(next);
            }
            length *= 0.6;
        }
        None
    }

    /// Gradient and second derivatives in steps relative to Λ and τ: λ (1 + d).
    fn derivatives(&self, at: &Point, weight: f64, inverse: &Array2<f64>) -> (Array1<f64>, Blocks) {
        let layers = self.network.layers.len();
        let n = self.slopes.len();
        let output = self.rows(layers + 1);
        // S F and S G, then Fᵀ S F, Fᵀ S G and Gᵀ S G.
        let [sf, sg] = [0, 1].map(|end| self.times_vectors(inverse, end));
        let [ff, fg, gg] =
            [(0, &sf), (0, &sg), (1, &sg)].map(|(end, x)| self.vectors_times(end, x.view()));
        let l = ArrayView1::from(&at.multipliers);
        let own = inverse.slice(s![output.clone(), output.clone()]);

        let mut gradient = Array1::zeros(n + 1);
        for i in 0..n {
            gradient[i] = (weight * self.costs[i] - fg[[i, i]]) * l[i] - self.logs[i];
        }
        gradient[n] = (weight - own.diag().sum()) * at.square;

        let chunks: Vec<_> = (0..n).step_by(CHUNK).map(|i| i..n.min(i + CHUNK)).collect();
        let sizes: Vec<_> = chunks.iter().map(Range::len).chain([1]).collect();
        let mut hessian = Blocks::zeros(&sizes);
        for (q, columns) in chunks.iter().enumerate() {
            for (p, rows) in chunks.iter().enumerate().skip(q) {
                let block = hessian.at(p, q);
                Zip::from(&mut *block)
                    .and(ff.slice(s![rows.clone(), columns.clone()]))
                    .and(gg.slice(s![rows.clone(), columns.clone()]))
                    .and(fg.slice(s![rows.clone(), columns.clone()]))
                    .and(fg.slice(s![columns.clone(), rows.clone()]).t())
                    .for_each(|h, ff, gg, fg, gf| *h = 0.5 * (ff * gg + fg * gf));
                *block *= &l.slice(s![rows.clone(), NewAxis]);
                *block *= &l.slice(s![columns.clone()]);
            }
            let own = hessian.at(q, q);
            for (d, i) in own.diag_mut().iter_mut().zip(columns.clone()) {
                *d += self.logs[i];
            }
            let last = hessian.at(chunks.len(), q);
            for (b, j) in columns.clone().enumerate() {
                let products = output.clone().map(|o| sf[[o, j]] * sg[[o, j]]);
                last[[0, b]] = at.square * l[j] * products.sum::<f64>();
            }
        }
        hessian.at(chunks.len(), chunks.len())[[0, 0]] =
            at.square.powi(2) * own.iter().map(|x| x * x).sum::<f64>();
        (gradient, hessian)
    }

    /// For each neuron λ times the smaller of fᵀ S f and gᵀ S g, S = P⁻¹.
    pub fn slack(&self, at: &Point) -> Option<Vec<f64>> {
        let inverse = self.matrix(at).cholesky()?.inverse();
        let [ff, gg] = [0, 1].map(|end| {
            let half = self.times_vectors(&inverse, end);
            self.vectors_times(end, half.view()).diag().to_owned()
        });
        let each = at.multipliers.iter().zip(ff.iter().zip(&gg));
        Some(each.map(|(l, (f, g))| l * f.min(*g)).collect())
    }

    /// S F (`end` 0) or S G (`end` 1), whose columns are the vectors f_i = e_i − l_i a_i or g_i = e_i − u_i
    /// a_i.
    fn times_vectors<'s>(&self, inverse: &'s Array2<f64>, end: usize) -> CowArray<'s, f64, Ix2> {
        let neurons = self.starts[1]..self.starts[1] + self.slopes.len();
        let mut product = CowArray::from(inverse.slice(s![.., neurons]));
        self.each_map(end, |k, j, map| {
            let mut columns = product.slice_mut(s![.., self.neurons(k)]);
            columns -= &matmul(inverse.slice(s![.., self.rows(j)]), map.t());
        });
        product
    }

    /// Fᵀ X or Gᵀ X.
    fn vectors_times<'s>(&self, end: usize, x: ArrayView2<'s, f64>) -> CowArray<'s, f64, Ix2> {
        let neurons = self.starts[1]..self.starts[1] + self.slopes.len();
        let mut product = CowArray::from(x.slice_move(s![neurons, ..]));
        self.each_map(end, |k, j, map| {
            let mut rows = product.slice_mut(s![self.neurons(k), ..]);
            rows -= &matmul(map.view(), x.slice(s![self.rows(j), ..]));
        });
        product
    }

    /// Calls `with` for each map of layer k that reads block j, its rows multiplied by one end of the slopes,
    /// where that is not zero.
    fn each_map(&self, end: usize, mut with: impl FnMut(usize, usize, Array2<f64>)) {
        for (k, layer) in self.network.layers.iter().enumerate() {
            let factors: Array1<f64> = layer.slopes.iter().map(|slopes| slopes[end]).collect();
            if factors.iter().any(|x| *x != 0.0) {
                let factors = factors.insert_axis(Axis(1));
                layer
                    .reads
                    .iter()
                    .for_each(|(j, a)| with(k, *j, a * &factors));
            }
        }
    }
}

/// Λ c and τ / c, which prove the same.
fn scaled(at: &Point, c: f64) -> Point {
    Point {
        multipliers: at.multipliers.iter().map(|l| l * c).collect(),
        square: at.square / c,
    }
}

/// About the largest eigenvalue of a positive semidefinite matrix.
fn largest_eigenvalue(a: &Array2<f64>) -> f64 {
    let start = Array1::from_shape_fn(a.nrows(), |i| 1.0 + (i * 7 % 11) as f64 / 11.0);
    power_iteration(a.view(), start.view(), 100).get()
}
