//! A search for the laws of any function of parameters, without any declaration, and a count that tells
//! whether the list is complete.
//!
//! 1. **Find.** A generator with unknown entries, θ → θ + t (Bθ + b), is a symmetry if ⟨Bθ + b, G⟩ = 0 for
//!    the gradient G = ∂⟨u, f(θ, x)⟩/∂θ at every θ, for all data x and all cotangents u, that is for every
//!    loss. Each random (θ, x, u) is one linear equation for the entries; their null space is the space of
//!    all laws of this form.
//! 2. **Count.** Every conserved quantity has a gradient orthogonal to all G at θ, and to all their Lie
//!    brackets. So D minus the rank of these vectors at one point is an upper bound on the number of
//!    independent laws, whatever their form. The rank of the directions Bθ + b of the laws found is a lower
//!    bound. If the two bounds are equal, the list is complete.
//! 3. **Name.** The null space is rotated to sparse generators and compared with the declared laws. The laws
//!    that are not declared are printed as formulas.
//!
//! The brackets are those of Marcotte, Gribonval and Peyré, "Abide by the Law and Follow the Flow:
//! Conservation Laws for Gradient Flows", NeurIPS 2023, Theorem 3.3 and Section 3.2, where the gradients of
//! the networks are written by hand.

mod count;
mod field;
mod find;
mod image;
mod name;

pub use field::Field;
pub use find::Ansatz;

use image::image;

use super::{Generator, Law, Layout};
use crate::autodiff::{Tape, Var, vjp};
use crate::kernels::draw::{self, Rng};
use crate::kernels::random::mix;
use crate::linalg::Span;
use crate::tensor::{Tensor, tensor};

/// f(θ, x) for the search: it maps variables for the parameters, and a seed for the data, to the outputs.
pub type Forward<'a> =
    dyn for<'t> Fn(&'t Tape<f64>, &[Var<'t, f64>], u64) -> Var<'t, f64> + Sync + 'a;

/// A function of parameters and random data.
pub struct ParametricFunction<'a> {
    layout: Layout,
    forward: Box<Forward<'a>>,
}

impl<'a> ParametricFunction<'a> {
    /// `forward` computes outputs of any shape from variables for the parameters of `layout`, on data that it
    /// draws from its last argument, a seed. If the data do not depend on the seed, the laws are those for
    /// these data.
    pub fn new(
        layout: Layout,
        forward: impl for<'t> Fn(&'t Tape<f64>, &[Var<'t, f64>], u64) -> Var<'t, f64> + Sync + 'a,
    ) -> Self {
        Self {
            layout,
            forward: Box::new(forward),
        }
    }

    /// The names and shapes of the parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// ∂⟨u, f(θ, x)⟩/∂θ as one vector; x and u follow from `seed`.
    pub fn gradient(&self, theta: &[f64], seed: u64) -> Vec<f64> {
        let tape = Tape::new();
        let vars = self.variables(&tape, theta);
        let (y, u) = self.output(&tape, &vars, seed);
        let gradients = vjp(y, &vars, &u);
        gradients.iter().flat_map(|g| g.iter().copied()).collect()
    }

    /// A random θ: entries of a matrix of variance 1/columns, of a vector of variance ¼.
    pub fn draw(&self, rng: &mut Rng) -> Vec<f64> {
        let mut theta = Vec::with_capacity(self.layout.len());
        for (k, shape) in self.layout.shapes().iter().enumerate() {
            let fan_in = match shape.len() {
                0 | 1 => 4,
                _ => self.layout.matrix(k)[1].max(1),
            };
            theta.extend(draw::normal::<f64>(shape, (fan_in as f64).powf(-0.5), rng));
        }
        theta
    }

    /// A random θ and the vector of the field there. If the whole gradient is zero, as in a network with a
    /// layer of dead neurons, another θ is drawn.
    fn point(&self, field: Field, seed: u64) -> (Vec<f64>, Vec<f64>) {
        const TRIES: u64 = 50;
        let draw = |k| {
            let theta = self.draw(&mut draw::rng(mix(seed, 2 * k)));
            let gradient = self.gradient(&theta, mix(seed, 2 * k + 1));
            (theta, gradient)
        };
        let finite = |(_, gradient): &(Vec<f64>, Vec<f64>)| gradient.iter().all(|g| g.is_finite());
        let alive = |(_, gradient): &(Vec<f64>, Vec<f64>)| gradient.iter().any(|g| *g != 0.0);
        let found = (0..TRIES)
            .map(draw)
            .find(|point| finite(point) && alive(point));
        let point = found.unwrap_or_else(|| draw(0));
        assert!(
            finite(&point),
            "discover: a derivative of the outputs is not a finite number at {TRIES} random points"
        );
        let (theta, gradient) = point;
        let vector = field.of(&self.layout, gradient);
        (theta, vector)
    }

    fn variables<'t>(&self, tape: &'t Tape<f64>, theta: &[f64]) -> Vec<Var<'t, f64>> {
        let part = |(k, shape): (usize, &Vec<usize>)| {
            let start = self.layout.start(k);
            let values = theta[start..start + shape.iter().product::<usize>()].to_vec();
            tape.var(tensor(shape, values))
        };
        self.layout.shapes().iter().enumerate().map(part).collect()
    }

    /// f(θ, x) and a random cotangent of its shape.
    fn output<'t>(
        &self,
        tape: &'t Tape<f64>,
        vars: &[Var<'t, f64>],
        seed: u64,
    ) -> (Var<'t, f64>, Tensor<f64>) {
        let y = (self.forward)(tape, vars, mix(seed, 0));
        (
            y,
            draw::normal(&y.shape(), 1.0, &mut draw::rng(mix(seed, 1))),
        )
    }
}

/// How to search.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// The form of the generators; `None` is the most general one that is affordable
    /// ([`Ansatz::affordable`]).
    pub ansatz: Option<Ansatz>,
    /// The vector field; laws are those of [`Field::Gradient`].
    pub field: Field,
    /// The largest number of parameters for which the upper bound is computed; the cost grows with the cube
    /// of this number.
    pub count_up_to: usize,
    /// The largest number of nested Lie brackets.
    pub brackets: usize,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            ansatz: None,
            field: Field::Gradient,
            count_up_to: 1500,
            brackets: 4,
            seed: 0,
        }
    }
}

/// A law that was found: one conserved quantity of gradient flow.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundLaw {
    /// The name of the declared law that it belongs to; `None` if it is not declared.
    pub declared: Option<String>,
    /// Its generator.
    pub generator: Generator,
    /// The identity δ = 0 in the names of the parameters.
    pub formula: String,
}

/// The outcome of a search. "Laws" are independent conserved quantities of gradient flow.
#[derive(Debug, Clone)]
pub struct Discovery {
    /// D, the number of parameters.
    pub parameters: usize,
    /// The form of the generators.
    pub ansatz: Ansatz,
    /// The vector field.
    pub field: Field,
    /// The number of declared laws.
    pub declared: usize,
    /// The number of laws found: a lower bound on the number of all laws.
    pub found: usize,
    /// An upper bound; `None` if the model has too many parameters to count.
    pub upper: Option<usize>,
    /// The laws found, each independent of the others: first the declared laws, then those that are not
    /// declared.
    pub laws: Vec<FoundLaw>,
    /// A basis of the generators found, each with a conserved quantity; it may have more elements than there
    /// are independent laws: a product of two conserved quantities is conserved.
    pub generators: Vec<Generator>,
    /// A basis of the symmetries between the rows or the columns of single parameters, including those
    /// without a conserved quantity: rotations. Empty if there are too many unknowns.
    pub symmetries: Vec<Generator>,
    /// The names of declared laws that a random point breaks; along another field than the gradient's, those
    /// whose quantities are not conserved.
    pub broken: Vec<String>,
    /// The names of declared laws that the generators found do not contain.
    pub missing: Vec<String>,
    /// The largest |δ| of a law found, relative to the size of its terms, at points that the search did not
    /// use.
    pub max_delta: f64,
    /// The largest singular value counted as zero and the smallest not counted as zero, relative to the mean:
    /// the gap between laws and other directions.
    pub gap: (f64, f64),
}

impl Discovery {
    /// Whether all laws were found: the number found is equal to the upper bound.
    pub fn is_complete(&self) -> bool {
        self.upper == Some(self.found)
    }

    /// The laws that are not declared.
    pub fn discovered(&self) -> impl Iterator<Item = &FoundLaw> {
        self.laws.iter().filter(|law| law.declared.is_none())
    }
}

/// A relative δ above which a law does not hold in `f64`.
const TOLERANCE: f64 = 1e-10;

/// Searches for the conservation laws of a function that hold for every loss of its outputs, and compares
/// them with those that are `declared`.
///
/// The result is numerical: it holds at random points, up to rounding errors. For functions that are analytic
/// this is all points but a set of measure zero. Where a function has pieces (clamp, thresholds), a law that
/// only a piece breaks on which none of the points lies is listed; and an effect below rounding is no effect.
///
/// # Panics
/// If derivatives of the outputs are not finite at random points.
///
/// ```
/// use emmy::symmetry::{Layout, ParametricFunction, Search, discover};
/// use emmy::init;
/// // f(θ, x) = relu(x W₁ᵀ) W₂ᵀ, 2-3-2.
/// let shapes = [("W1", vec![3, 2]), ("W2", vec![2, 3])];
/// let layout = Layout::new(shapes.map(|(name, shape)| (name.to_owned(), shape)));
/// let net = ParametricFunction::new(layout, |tape, w, seed| {
///     let x = tape.constant(init::normal(&[4, 2], 1.0, &mut init::rng(seed)));
///     x.matmul(w[0].t()).relu().matmul(w[1].t())
/// });
/// let laws = discover(&net, &[], &Search::default());
/// assert!(laws.is_complete());
/// assert_eq!(laws.found, 3);
/// assert_eq!(laws.laws[0].formula, "⟨W1[0,:], G⟩ − ⟨W2[:,0], G⟩ = 0");
/// ```
pub fn discover(function: &ParametricFunction<'_>, declared: &[Law], search: &Search) -> Discovery {
    let layout = &function.layout;
    let ansatz = search.ansatz.unwrap_or_else(|| Ansatz::affordable(layout));
    let seed = |k| mix(search.seed, k);
    let field = search.field;
    let fresh = Fresh::new(function, field, 16, seed(4));
    let along = (function, field);
    let mut space = find::symmetries(along, &ansatz.candidates(layout, true), &fresh, seed(0));
    // Where a function has pieces, the points of the equations may all lie on some of them.
    let unseen = Fresh::new(function, field, 64, seed(6));
    (space.generators).retain(|generator| unseen.worst(generator) <= TOLERANCE);
    let symmetries = match Ansatz::Matrices.unknowns(layout) <= Ansatz::MOST {
        false => Vec::new(),
        true => {
            let all = Ansatz::Matrices.candidates(layout, false);
            find::symmetries(along, &all, &fresh, seed(1)).generators
        }
    };
    let theta = function.draw(&mut draw::rng(seed(2)));
    let most = space.generators.len();
    let found = span_of(&space.generators, &theta, most);
    // The brackets are those of gradients.
    let upper = (field == Field::Gradient && layout.len() <= search.count_up_to)
        .then(|| count::upper_bound(function, found.rank(), search.brackets, seed(3)));
    let (mut broken, mut missing, mut named) = (Vec::new(), Vec::new(), Vec::new());
    let contained = Contained::new(&space.generators, &symmetries, function, seed(5));
    for law in declared {
        let conserving = law.conserving(layout);
        let all = law.generators(layout);
        if !all.iter().all(|g| fresh.worst(g) <= TOLERANCE) {
            broken.push(law.name.clone());
        } else if !contained.laws(&conserving) || !contained.symmetries(&all) {
            missing.push(law.name.clone());
        } else {
            named.extend(conserving.into_iter().map(|g| (law.name.clone(), g)));
        }
    }
    let holds = |generator: &Generator| unseen.worst(generator) <= TOLERANCE;
    let laws = name::independent(&space.generators, &named, layout, &theta, holds);
    let of_laws = laws.iter().map(|law| &law.generator);
    let max_delta = (space.generators.iter().chain(of_laws))
        .map(|g| unseen.worst(g))
        .fold(0.0, f64::max);
    Discovery {
        parameters: layout.len(),
        ansatz,
        field,
        declared: laws.iter().filter(|law| law.declared.is_some()).count(),
        found: found.rank(),
        upper,
        laws,
        generators: space.generators,
        symmetries,
        broken,
        missing,
        max_delta,
        gap: (space.inside, space.outside),
    }
}

/// The span of Bθ + b over generators, of which there are at most `count`.
fn span_of(generators: &[Generator], theta: &[f64], count: usize) -> Span {
    let mut span = Span::default();
    for generator in generators {
        span.add(&direction(generator, theta, count), 0.0);
    }
    span
}

/// Bθ + b, or a shorter image of it that is sufficient for the rank of at most `count` such vectors.
fn direction(generator: &Generator, theta: &[f64], count: usize) -> Vec<f64> {
    image(&generator.direction(theta), count + 64)
}

/// Random points that the equations did not use.
struct Fresh(Vec<(Vec<f64>, Vec<f64>)>);

impl Fresh {
    fn new(function: &ParametricFunction<'_>, field: Field, points: u64, seed: u64) -> Self {
        let points = (0..points).map(|k| function.point(field, mix(seed, k)));
        Self(points.collect())
    }

    /// The largest relative δ; infinite if one is no number.
    fn worst(&self, generator: &Generator) -> f64 {
        let one = |(theta, gradient): &(Vec<f64>, Vec<f64>)| generator.relative(theta, gradient);
        let all = self.0.iter().map(one);
        all.fold(
            0.0,
            |m, x| if x.is_nan() { f64::INFINITY } else { m.max(x) },
        )
    }
}

/// Decides whether generators are in the span of those found, by their directions at a few points together.
struct Contained {
    points: Vec<Vec<f64>>,
    count: usize,
    laws: Span,
    all: Span,
}

impl Contained {
    fn new(
        laws: &[Generator],
        symmetries: &[Generator],
        function: &ParametricFunction<'_>,
        seed: u64,
    ) -> Self {
        let count = laws.len() + symmetries.len();
        let rng = &mut draw::rng(seed);
        let points = 0..2 + count / function.layout.len().max(1);
        let mut out = Self {
            points: points.map(|_| function.draw(rng)).collect(),
            count,
            laws: Span::default(),
            all: Span::default(),
        };
        for generator in laws {
            out.laws.add(&out.at_points(generator), 0.0);
        }
        for generator in laws.iter().chain(symmetries) {
            out.all.add(&out.at_points(generator), 0.0);
        }
        out
    }

    fn at_points(&self, generator: &Generator) -> Vec<f64> {
        let points = self.points.iter();
        let all: Vec<Vec<f64>> = points.map(|theta| generator.direction(theta)).collect();
        image(&all.concat(), self.count + 64)
    }

    fn laws(&self, generators: &[Generator]) -> bool {
        (generators.iter()).all(|g| self.laws.contains(&self.at_points(g)))
    }

    fn symmetries(&self, generators: &[Generator]) -> bool {
        (generators.iter()).all(|g| self.all.contains(&self.at_points(g)))
    }
}
