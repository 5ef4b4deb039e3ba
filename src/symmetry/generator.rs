//! Symmetries entry by entry: linear changes of all parameters together.

use super::{Law, Side, Slice, Symmetry, Term};

/// The parameters of a model as one vector θ: one after the other, each row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    names: Vec<String>,
    shapes: Vec<Vec<usize>>,
    /// The first entry of each parameter; at the end D.
    starts: Vec<usize>,
}

impl Layout {
    /// Parameters with names and shapes.
    pub fn new(parameters: impl IntoIterator<Item = (String, Vec<usize>)>) -> Self {
        let (names, shapes): (Vec<_>, Vec<Vec<usize>>) = parameters.into_iter().unzip();
        let mut starts = vec![0];
        for shape in &shapes {
            starts.push(starts.last().expect("one") + shape.iter().product::<usize>());
        }
        Self {
            names,
            shapes,
            starts,
        }
    }

    /// D, the number of entries.
    pub fn len(&self) -> usize {
        *self.starts.last().expect("one")
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The names of the parameters.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The shapes of the parameters.
    pub fn shapes(&self) -> &[Vec<usize>] {
        &self.shapes
    }

    /// The first entry of a parameter.
    pub(crate) fn start(&self, parameter: usize) -> usize {
        self.starts[parameter]
    }

    /// The number of entries of a parameter.
    pub(crate) fn size(&self, parameter: usize) -> usize {
        self.starts[parameter + 1] - self.starts[parameter]
    }

    /// A parameter as a matrix: rows and columns. All axes but the last are rows; the entries of a vector
    /// are rows of one column.
    pub(crate) fn matrix(&self, parameter: usize) -> [usize; 2] {
        match &self.shapes[parameter][..] {
            [] => [1, 1],
            [n] => [*n, 1],
            [.., columns] => [
                self.shapes[parameter].iter().product::<usize>() / (*columns).max(1),
                *columns,
            ],
        }
    }

    /// The parameter that an entry belongs to.
    pub(crate) fn parameter(&self, entry: usize) -> usize {
        self.starts.partition_point(|&start| start <= entry) - 1
    }
}

/// The generator of a symmetry: under θ → θ + t (Bθ + b), t small, the loss stays as it is. Hence
///
/// δ = ⟨Bθ + b, G⟩ = 0,   G = ∂L/∂θ.
///
/// If B is symmetric, gradient flow conserves c = ½ θᵀBθ + bᵀθ, whose gradient is Bθ + b: dc/dt = −δ.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Generator {
    /// The entries of B that are not zero: row, column, value; sorted.
    matrix: Vec<(usize, usize, f64)>,
    /// The entries of b that are not zero: number, value; sorted.
    vector: Vec<(usize, f64)>,
}

impl Generator {
    /// From the entries of B and b; entries given twice are added.
    pub fn new(mut matrix: Vec<(usize, usize, f64)>, mut vector: Vec<(usize, f64)>) -> Self {
        matrix.sort_by_key(|&(i, j, _)| (i, j));
        matrix.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        matrix.retain(|&(.., w)| w != 0.0);
        vector.sort_by_key(|&(i, _)| i);
        vector.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        vector.retain(|&(_, w)| w != 0.0);
        Self { matrix, vector }
    }

    /// Σ w_k of generators.
    pub fn combination<'a>(parts: impl IntoIterator<Item = (f64, &'a Self)>) -> Self {
        let (mut matrix, mut vector) = (Vec::new(), Vec::new());
        for (w, part) in parts {
            matrix.extend(part.matrix.iter().map(|&(i, j, x)| (i, j, w * x)));
            vector.extend(part.vector.iter().map(|&(i, x)| (i, w * x)));
        }
        Self::new(matrix, vector)
    }

    /// The entries of B that are not zero: row, column, value.
    pub fn matrix(&self) -> &[(usize, usize, f64)] {
        &self.matrix
    }

    /// The entries of b that are not zero: number, value.
    pub fn vector(&self) -> &[(usize, f64)] {
        &self.vector
    }

    /// The number of entries that are not zero.
    pub fn entries(&self) -> usize {
        self.matrix.len() + self.vector.len()
    }

    /// The generator without entries that are smaller than `share` of the largest: those are rounding errors.
    pub(crate) fn cleaned(&self, share: f64) -> Self {
        let floor = share * self.largest();
        let mut out = self.clone();
        out.matrix.retain(|&(.., w)| w.abs() > floor);
        out.vector.retain(|&(_, w)| w.abs() > floor);
        out
    }

    /// The same with f applied to every entry that is not zero.
    pub(crate) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        let matrix = self.matrix.iter().map(|&(i, j, w)| (i, j, f(w)));
        let vector = self.vector.iter().map(|&(i, w)| (i, f(w)));
        Self::new(matrix.collect(), vector.collect())
    }

    /// The largest absolute value of an entry.
    pub fn largest(&self) -> f64 {
        let matrix = self.matrix.iter().map(|&(.., w)| w.abs());
        matrix
            .chain(self.vector.iter().map(|&(_, w)| w.abs()))
            .fold(0.0, f64::max)
    }

    /// Whether B is symmetric up to `tolerance` of its largest entry.
    pub fn is_conserving(&self, tolerance: f64) -> bool {
        let floor = tolerance * self.largest();
        let at = |i, j| {
            let found = self
                .matrix
                .binary_search_by_key(&(i, j), |&(i, j, _)| (i, j));
            found.map_or(0.0, |k| self.matrix[k].2)
        };
        (self.matrix.iter()).all(|&(i, j, w)| (w - at(j, i)).abs() <= floor)
    }

    /// Bθ + b, the direction in which the parameters move.
    pub fn direction(&self, theta: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; theta.len()];
        for &(i, j, w) in &self.matrix {
            out[i] += w * theta[j];
        }
        for &(i, w) in &self.vector {
            out[i] += w;
        }
        out
    }

    /// δ = ⟨Bθ + b, G⟩ and the size of its terms, Σ |B_ij θ_j G_i| + Σ |b_i G_i|.
    pub fn delta(&self, theta: &[f64], gradient: &[f64]) -> (f64, f64) {
        let (mut delta, mut size) = (0.0, 0.0);
        let mut add = |term: f64| {
            delta += term;
            size += term.abs();
        };
        for &(i, j, w) in &self.matrix {
            add(w * theta[j] * gradient[i]);
        }
        for &(i, w) in &self.vector {
            add(w * gradient[i]);
        }
        (delta, size)
    }

    /// The size of δ relative to the size of its terms. If the terms are smaller than the largest derivative
    /// times the largest entry of B and b (a dead neuron, a parameter without effect), δ is relative to this
    /// product: smaller terms are rounding errors.
    pub fn relative(&self, theta: &[f64], gradient: &[f64]) -> f64 {
        let (delta, size) = self.delta(theta, gradient);
        let largest = gradient.iter().fold(0.0_f64, |m, g| m.max(g.abs()));
        match size.max(largest * self.largest()) {
            0.0 => 0.0,
            size => delta.abs() / size,
        }
    }

    /// c = ½ θᵀBθ + bᵀθ, which gradient flow conserves if B is symmetric.
    pub fn conserved(&self, theta: &[f64]) -> f64 {
        0.5 * self.product(theta, theta) + self.along(theta)
    }

    /// xᵀBy
    fn product(&self, x: &[f64], y: &[f64]) -> f64 {
        let terms = self.matrix.iter().map(|&(i, j, w)| w * x[i] * y[j]);
        terms.sum()
    }

    /// bᵀx
    fn along(&self, x: &[f64]) -> f64 {
        self.vector.iter().map(|&(i, w)| w * x[i]).sum()
    }
}

/// The exact drift of c = ½ θᵀBθ + bᵀθ under gradient descent with momentum and weight decay,
///
/// v⁺ = μ v + G + λ θ,   θ⁺ = θ − η v⁺,
///
/// for any step size. With q = ⟨Bθ + b, v⟩, ℓ = bᵀθ and r = v⁺ᵀBv⁺
///
/// w = μ q + λ (2c − ℓ),   c⁺ = c − η w + ½ η² r,   q⁺ = w − η r,   ℓ⁺ = ℓ − η bᵀv⁺,
///
/// since ⟨Bθ + b, G⟩ = 0. Without momentum and decay c⁺ = c + ½ η² GᵀBG. A gradient that is multiplied by a
/// number, for example when its norm is clipped, counts as G here. Adam and clipping entry by entry have no
/// such formula.
#[derive(Debug, Clone)]
pub struct Drift {
    generator: Generator,
    c: f64,
    q: f64,
    l: f64,
    velocity: Vec<f64>,
}

impl Drift {
    /// At θ, before the first step: v = 0.
    ///
    /// # Panics
    /// If B is not symmetric: there is no c.
    #[track_caller]
    pub fn new(generator: &Generator, theta: &[f64]) -> Self {
        assert!(
            generator.is_conserving(1e-9),
            "drift: the matrix of the generator is not symmetric, so there is no conserved quantity"
        );
        Self {
            c: generator.conserved(theta),
            q: 0.0,
            l: generator.along(theta),
            velocity: vec![0.0; theta.len()],
            generator: generator.clone(),
        }
    }

    /// The predicted c, computed from the start and the steps.
    pub fn conserved(&self) -> f64 {
        self.c
    }

    /// One step from θ with gradient G. θ and G are used only to compute v⁺.
    pub fn step(&mut self, theta: &[f64], gradient: &[f64], lr: f64, momentum: f64, decay: f64) {
        for ((v, g), x) in self.velocity.iter_mut().zip(gradient).zip(theta) {
            *v = momentum * *v + g + decay * x;
        }
        let r = self.generator.product(&self.velocity, &self.velocity);
        let w = momentum * self.q + decay * (2.0 * self.c - self.l);
        self.c += -lr * w + 0.5 * lr * lr * r;
        self.q = w - lr * r;
        self.l -= lr * self.generator.along(&self.velocity);
    }
}

impl Law {
    /// The generator of the change whose derivative is entry `entry` of δ ([`transform`](Self::transform)).
    ///
    /// # Panics
    /// If there is no such entry, or the parameters are not those of the law.
    #[track_caller]
    pub fn generator(&self, layout: &Layout, entry: usize) -> Generator {
        assert!(
            entry < self.entries(),
            "{}: entry {entry} of {}",
            self.name,
            self.entries()
        );
        let n = self.neurons();
        let (i, j) = match self.symmetry {
            Symmetry::Rescaling | Symmetry::Translation => (entry, entry),
            Symmetry::Linear | Symmetry::Rotation => (entry / n, entry % n),
        };
        let (mut matrix, mut vector) = (Vec::new(), Vec::new());
        for term in &self.terms {
            let Slice { parameter, .. } = term.slice;
            let length = layout.shapes.get(parameter).map(|s| s.iter().product());
            self.find(&term.slice, length, |&len: &usize| len);
            let start = layout.start(parameter);
            let place = |entry: usize| start + entry;
            if self.symmetry == Symmetry::Translation {
                vector.extend(term.entries_of(i).map(|k| (place(k), term.weight)));
                continue;
            }
            // Entry a grows with w times entry b, with that of W + c I beside an identity.
            let mut add = |a: usize, b: usize, w: f64| {
                matrix.push((place(a), place(b), w));
                vector.push((place(a), w * term.added_to(b)));
            };
            match self.symmetry {
                Symmetry::Translation => {}
                Symmetry::Rescaling if term.mean => {
                    let share = term.weight / term.slice.neurons() as f64;
                    for (a, b) in term.slice.pairs() {
                        add(a, b, share);
                    }
                }
                Symmetry::Rescaling => {
                    for k in term.entries_of(i) {
                        add(k, k, term.weight);
                    }
                }
                Symmetry::Linear | Symmetry::Rotation => {
                    let both = self.symmetry == Symmetry::Rotation;
                    let incoming = term.side == Side::Incoming;
                    for (x, y) in term.entries_of(i).zip(term.entries_of(j)) {
                        if both || incoming {
                            add(x, y, 1.0);
                        }
                        if both || !incoming {
                            add(y, x, -1.0);
                        }
                    }
                }
            }
        }
        Generator::new(matrix, vector)
    }

    /// All generators: one per entry of δ, for a rotation one per plane.
    pub fn generators(&self, layout: &Layout) -> Vec<Generator> {
        let n = self.neurons();
        let plane = |entry: &usize| entry / n < entry % n;
        let wanted = |entry: &usize| self.symmetry != Symmetry::Rotation || plane(entry);
        let all = (0..self.entries()).filter(wanted);
        all.map(|entry| self.generator(layout, entry)).collect()
    }

    /// The generators with a conserved quantity: the symmetric part for a law of matrices, none for a
    /// rotation, all for others.
    pub fn conserving(&self, layout: &Layout) -> Vec<Generator> {
        let n = self.neurons();
        match self.symmetry {
            Symmetry::Rescaling | Symmetry::Translation => self.generators(layout),
            Symmetry::Rotation => Vec::new(),
            Symmetry::Linear => {
                let pairs = (0..n).flat_map(|i| (i..n).map(move |j| (i, j)));
                let both = |(i, j): (usize, usize)| {
                    let (a, b) = (
                        self.generator(layout, i * n + j),
                        self.generator(layout, j * n + i),
                    );
                    Generator::combination([(0.5, &a), (0.5, &b)])
                };
                pairs.map(both).collect()
            }
        }
    }
}

impl Term {
    /// The entries of neuron j.
    pub(super) fn entries_of(&self, j: usize) -> impl Iterator<Item = usize> + use<> {
        let inner = self.slice.shape[2];
        let stretches = self.slice.stretches();
        stretches.flat_map(move |stretch| {
            let start = stretch.start + j * inner;
            start..start + inner
        })
    }
}

impl Slice {
    /// Pairs of entries at the same place of any two neurons.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (n, inner) = (self.neurons(), self.shape[2]);
        self.stretches().flat_map(move |stretch| {
            (0..n).flat_map(move |i| {
                (0..n).flat_map(move |j| {
                    (0..inner).map(move |k| {
                        (stretch.start + i * inner + k, stretch.start + j * inner + k)
                    })
                })
            })
        })
    }
}
