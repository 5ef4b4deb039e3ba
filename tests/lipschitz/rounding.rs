//! The program that runs, beside the function that it stands for.

use super::support::cases;
use emmy::data;
use emmy::init::{self, Rng};
use emmy::lipschitz::joint::Network;
use emmy::lipschitz::{Lp, rounding};
use emmy::nn::{Activation, GcnConv, Mlp, Pass, Trace};
use emmy::tensor::tensor;
use emmy::{Real, Tape, Tensor, Var};

/// A model in both types, with the same weights.
trait Both {
    fn forward<'t, F: Real>(&self, x: Var<'t, F>) -> Var<'t, F>;
}

/// A constant with the numbers that `f32` has.
fn weight<'t, F: Real>(x: Var<'t, F>, shape: &[usize], size: f64, seed: u64) -> Var<'t, F> {
    let w = init::normal::<f64>(shape, size, &mut init::rng(seed));
    x.tape().constant(w.mapv(|w| F::of(f64::from(w as f32))))
}

/// Layers of these widths, with biases.
struct Chain(Vec<usize>, u64);

impl Both for Chain {
    fn forward<'t, F: Real>(&self, x: Var<'t, F>) -> Var<'t, F> {
        let mut y = x;
        for (k, w) in self.0.windows(2).enumerate() {
            let seed = 100 * self.1 + k as u64;
            let size = (2.0 / w[0] as f64).sqrt();
            y = if k > 0 { y.relu() } else { y };
            y = y.linear(weight(x, &[w[1], w[0]], size, seed)) + weight(x, &[w[1]], 0.5, seed + 50);
        }
        y
    }
}

/// Three residual blocks with LeakyReLU.
struct Residual(usize, u64);

impl Both for Residual {
    fn forward<'t, F: Real>(&self, x: Var<'t, F>) -> Var<'t, F> {
        (0..3).fold(x, |x, k| {
            let (d, seed) = (self.0, 100 * self.1 + k);
            let h = x
                .linear(weight(x, &[2 * d, d], 0.4, seed))
                .leaky_relu(F::of(0.25));
            x + h.linear(weight(x, &[d, 2 * d], 0.4, seed + 50)) * 0.5
        })
    }
}

/// Two convolutions on the karate club, and the mean over the nodes.
struct Graph(u64);

impl Both for Graph {
    fn forward<'t, F: Real>(&self, x: Var<'t, F>) -> Var<'t, F> {
        let mut adjacency = data::karate().graph.with_self_loops().gcn_norm::<F>();
        for a in &mut adjacency.values {
            *a = F::of(f64::from(a.as_f64() as f32));
        }
        let adjacency = x.tape().sparse(&adjacency);
        let d = x.shape()[1];
        let h = adjacency
            .matmul(x.linear(weight(x, &[12, d], 0.6, self.0)))
            .relu();
        let y = adjacency
            .matmul(h)
            .linear(weight(x, &[5, 12], 0.6, self.0 + 1));
        y.sum(&[0], true) * (1.0 / 32.0)
    }
}

/// The output in `f32` and its error bound, around x within a radius.
fn single(model: &impl Both, x: &Tensor<f32>, radius: f64) -> (Tensor<f64>, Tensor<f64>) {
    let tape = Tape::new();
    let x = tape.var(x.clone());
    let y = model.forward(x);
    let e = rounding(y, x, radius).unwrap();
    (y.value().mapv(f64::from).into_shared(), e.entries().clone())
}

/// The output in `f64` and its own error bound.
fn double(model: &impl Both, x: &Tensor<f32>) -> (Tensor<f64>, Tensor<f64>) {
    let tape = Tape::new();
    let x = tape.var(x.mapv(f64::from));
    let y = model.forward(x);
    (y.value(), rounding(y, x, 0.0).unwrap().entries().clone())
}

/// The largest |f̂ − f| / e of an entry at x; an error above its bound panics.
fn ratio(model: &impl Both, x: &Tensor<f32>) -> f64 {
    let ((y, e), (z, exact)) = (single(model, x, 0.0), double(model, x));
    let entries = y.iter().zip(&e).zip(z.iter().zip(&exact));
    let ratios = entries.map(|((y, e), (z, exact))| {
        assert!((y - z).abs() <= e + exact, "{y} for {z}, bound {e:e}");
        // The f64 run decides nine digits of the error.
        assert!(*exact < 1e-7 * e, "{exact:e} beside {e:e}");
        (y - z).abs() / e
    });
    ratios.fold(0.0, f64::max)
}

/// Climbs to an input with a large error, by random steps of any size.
fn attack(model: &impl Both, shape: &[usize], steps: usize, rng: &mut Rng) -> f64 {
    let draw = |size: f64, rng: &mut Rng| init::normal::<f32>(shape, size, rng);
    let mut x = draw(1.0, rng);
    let mut best = ratio(model, &x);
    for k in 0..steps {
        let next = (&x + &draw([1e-6, 1e-3, 0.3][k % 3], rng)).into_shared();
        let found = ratio(model, &next);
        if found > best {
            (best, x) = (found, next);
        }
    }
    best
}

/// The bounds hold where the error is large, and are not useless: the ratios that the attack finds.
#[test]
fn the_error_of_a_pass_is_within_its_bound() {
    let mut least = f64::INFINITY;
    for seed in cases(3) {
        let rng = &mut init::rng(seed);
        let found = [
            attack(&Chain(vec![6, 8, 3], seed), &[2, 6], 60, rng),
            attack(&Chain(vec![20, 30, 30, 4], seed), &[1, 20], 60, rng),
            attack(&Residual(8, seed), &[2, 8], 60, rng),
            attack(&Graph(seed), &[34, 6], 30, rng),
        ];
        println!("{found:.3?}");
        least = found.into_iter().fold(least, f64::min);
    }
    // Each sum of n products counts with n roundings in one direction; in fact they cancel.
    assert!(least > 1.0 / 400.0, "{least}");
}

/// Around an input: no larger error within the radius, and larger bounds for larger radii.
#[test]
fn around_an_input_every_error_is_within_the_bound() {
    for seed in cases(3) {
        let rng = &mut init::rng(seed);
        let model = Chain(vec![10, 16, 12, 3], seed);
        let x = init::normal::<f32>(&[2, 10], 1.0, rng);
        let (_, here) = single(&model, &x, 0.0);
        for radius in [0.01, 0.3, 2.0] {
            let (_, bound) = single(&model, &x, radius);
            assert!(bound.iter().zip(&here).all(|(b, e)| b > e));
            for _ in 0..20 {
                let mut step = init::normal::<f32>(&[2, 10], 1.0, rng);
                for mut row in step.outer_iter_mut() {
                    let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
                    row *= 0.999 * radius as f32 / norm;
                }
                let other = (&x + &step).into_shared();
                let ((y, e), (z, exact)) = (single(&model, &other, 0.0), double(&model, &other));
                let entries = y.iter().zip(&z).zip(exact.iter().zip(&bound));
                assert!(
                    entries
                        .into_iter()
                        .all(|((y, z), (exact, b))| (y - z).abs() <= b + exact)
                );
                // The bound at x′ alone is sharper than that of all x′ at once.
                assert!(e.iter().zip(&bound).all(|(e, b)| e <= b), "radius {radius}");
            }
        }
    }
}

/// Networks of whole numbers, whose exact values are whole numbers of 128 bits: the error in `f64`.
#[test]
fn the_error_of_a_pass_in_f64_is_within_its_bound() {
    let mut lost = 0;
    for seed in cases(20) {
        let widths = [4, 6, 5, 2];
        let rng = &mut init::rng(seed);
        let mut whole = |shape: &[usize]| {
            init::normal::<f64>(shape, 1e8, rng)
                .mapv(f64::round)
                .into_shared()
        };
        let weights: Vec<_> = widths.windows(2).map(|w| whole(&[w[1], w[0]])).collect();
        let start = whole(&[1, 4]);
        let tape = Tape::new();
        let x = tape.var(start.clone());
        let mut y = x;
        let mut exact: Vec<i128> = start.iter().map(|&x| x as i128).collect();
        for (k, w) in weights.iter().enumerate() {
            y = if k > 0 { y.relu() } else { y };
            y = y.linear(tape.constant(w.clone()));
            let rows = w.outer_iter().map(|row| {
                let terms = row
                    .iter()
                    .zip(&exact)
                    .map(|(&w, &x)| w as i128 * x.max(if k > 0 { 0 } else { x }));
                terms.sum()
            });
            exact = rows.collect();
        }
        let e = rounding(y, x, 0.0).unwrap();
        for ((y, z), e) in y.value().iter().zip(&exact).zip(e.entries()) {
            // ŷ is a whole number, and so is the difference.
            let off = (*y as i128 - z).unsigned_abs() as f64;
            assert!(off <= *e, "{y} for {z}, bound {e:e}");
            assert!(*e < 1e-13 * 1e8_f64.powi(4), "{e:e}");
            lost += u32::from(off > 0.0);
        }
    }
    assert!(lost > 0, "no sum was rounded");
}

/// The program breaks a certificate that is right for real numbers ("Certified" robustness that its
/// execution does not have: arXiv 2603.13334). A large bias rounds small inputs to multiples of 4.
#[test]
fn a_certified_network_whose_program_breaks_the_certificate() {
    let big = 2f32.powi(25);
    let f = |x: f32| {
        let tape = Tape::new();
        let x = tape.var(tensor(&[1, 1], vec![x]));
        let row = |w: Vec<f32>| tape.constant(tensor(&[w.len(), 1], w));
        let h = (x.linear(row(vec![1.0])) + big).relu();
        // The second output is the constant ½: a class that wins where the first is smaller.
        let y = h.linear(row(vec![1.0, 0.0])) + tape.constant(vec![-big, 0.5]);
        let e = rounding(y, x, 0.0).unwrap();
        let error = e.entries().iter().copied().collect::<Vec<_>>();
        (
            y.value().iter().map(|&y| f64::from(y)).collect::<Vec<_>>(),
            error,
        )
    };
    let matrix = |w: &[f64]| {
        tensor(&[w.len(), 1], w.to_vec())
            .to_owned()
            .into_dimensionality()
            .unwrap()
    };
    let net = Network::chain(vec![matrix(&[1.0]), matrix(&[1.0, 0.0])], [0.0, 1.0]).unwrap();
    let certificate = net.margin(0, 1).certify().unwrap();
    net.margin(0, 1).verify(&certificate).unwrap();
    let l = certificate.lipschitz;
    assert!((1.0..1.001).contains(&l), "{l}");

    // In exact arithmetic f(x) = (x, ½) for these x, and the margin at 2.5 certifies every input within 1.
    let (x, other) = (2.5_f32, 1.75_f32);
    assert!(f64::from(x) - 0.5 > l * 1.0);
    let ((y, e), (z, e_other)) = (f(x), f(other));
    let margins = [y[0] - y[1], z[0] - z[1]];
    assert!(
        margins[0] > 0.0 && margins[1] < 0.0,
        "the class changes: {margins:?}"
    );
    let (moved, apart) = (
        (margins[0] - margins[1]).abs(),
        f64::from((x - other).abs()),
    );
    assert!(
        moved > 5.0 * l * apart,
        "the certificate is broken: {moved}, {apart}"
    );
    let allowed = e.iter().sum::<f64>() + e_other.iter().sum::<f64>();
    assert!(moved <= l * apart + allowed, "{moved}, {allowed}");
    assert!(allowed < 2.5 * moved, "{allowed}: it says something");
    // With the errors, the margin at 2.5 certifies nothing.
    assert!(y[0] - y[1] - allowed < l * 1.0);
}

/// Ordinary networks break it too, where the inputs are neighbours.
#[test]
fn neighbours_break_the_constant_and_stay_within_the_statement() {
    let mut broken = 0;
    for seed in 0..4 {
        let rng = &mut init::rng(seed);
        let net = Mlp::<f32>::new(&[8, 16, 16, 2], Activation::Relu, true, rng);
        let at = |x: &Tensor<f32>| {
            let tape = Tape::new();
            let pass = Pass::differentiable(&tape, &net);
            let x = tape.var(x.clone());
            let y = net.forward(&pass, x);
            let e = rounding(y, x, 0.0).unwrap().norm(Lp::Two).get();
            (y.value(), e)
        };
        let l = {
            let start = init::zeros::<f32>(&[1, 8]);
            let trace = Trace::at(&net, &start, |pass, x| net.forward(pass, x));
            trace.lipschitz(Lp::Two).unwrap().upper.get()
        };
        for _ in 0..100 {
            let x = init::normal::<f32>(&[1, 8], 1.0, rng);
            let mut other = x.clone();
            other[[0, 3]] = other[[0, 3]].next_up();
            let apart = f64::from(other[[0, 3]]) - f64::from(x[[0, 3]]);
            let ((y, e), (z, e_other)) = (at(&x), at(&other));
            let moved = Lp::Two.of(y.iter().zip(&z).map(|(y, z)| f64::from(*y) - f64::from(*z)));
            broken += u32::from(moved > l * apart);
            assert!(moved <= l * apart + e + e_other);
        }
    }
    assert!(broken > 20, "the constant alone was broken {broken} times");
}

/// A graph network and an Mlp as modules, through their traces: the paths are those of `Trace::lipschitz`.
#[test]
fn a_trace_reads_the_error_of_a_model() {
    let rng = &mut init::rng(0);
    let club = data::karate();
    let adjacency = club.graph.with_self_loops().gcn_norm::<f32>();
    let net = vec![
        GcnConv::<f32>::new(6, 8, true, rng),
        GcnConv::new(8, 2, true, rng),
    ];
    let x = init::normal(&[club.nodes(), 6], 1.0, rng);
    let trace = Trace::at(&net, &x, |pass, x| {
        net[1].forward(pass, net[0].forward(pass, x, &adjacency).relu(), &adjacency)
    });
    let e = trace.rounding(0.0).unwrap();
    assert_eq!(e.entries().shape(), [club.nodes(), 2]);
    let norms = Lp::ALL.map(|p| e.norm(p).get());
    assert!(
        norms[2] < norms[1] && norms[1] < norms[0] && norms[0] < 1e-3,
        "{norms:?}"
    );
}
