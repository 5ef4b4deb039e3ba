//! How far can an output move if the input moves? The Lipschitz constant of a network of your own as an
//! interval: the upper end is proven, the lower end comes from a perturbation that was found. Then the bound
//! becomes a part of the loss, and the network is trained to be steady.
//!
//! `cargo run --example lipschitz`; `cargo run --release -p papers -- lipschitz` has more models,
//! files of weights, images, and figures. `--networks DIR --json` prints the interval of each chain of
//! matrices with ReLU in the safetensors files of a folder.

use emmy::init;
use emmy::lipschitz::joint::{Network, Pieces};
use emmy::lipschitz::{Domain, Lp, Upper, bound};
use emmy::nn::{Linear, Pass, Trace};
use emmy::optim::{Algorithm, Optimizer};
use emmy::store::weights::Weights;
use emmy::train::{self, metrics};
use emmy::{Error, Real, Result, Tensor, Var};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

const HELP: &str = "lipschitz: trains two networks and prints their Lipschitz constants as intervals

  --networks DIR --json   print those of the networks in a folder of safetensors files, one per line";

/// y = W₃ σ(W₂ σ(W₁ x)) with σ = relu.
struct Net<F: Real> {
    first: Linear<F>,
    second: Linear<F>,
    third: Linear<F>,
}
emmy::module!(Net: first, second, third);

impl<F: Real> Net<F> {
    fn new(input: usize, classes: usize, seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        Self {
            first: Linear::new(input, 16, true, rng),
            second: Linear::new(16, 16, true, rng),
            third: Linear::new(16, classes, true, rng),
        }
    }

    fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let h = self.first.forward(pass, x).relu();
        let h = self.second.forward(pass, h).relu();
        self.third.forward(pass, h)
    }
}

/// The members of two clubs: points around two circles, one within the other.
fn circles(count: usize, seed: u64) -> (Tensor<f64>, Vec<usize>) {
    let noise = init::normal::<f64>(&[count, 2], 0.1, &mut init::rng(seed));
    let labels: Vec<usize> = (0..count).map(|k| k % 2).collect();
    let point = |k: usize| {
        let (sin, cos) = (k as f64).sin_cos();
        let radius = 1.0 + labels[k] as f64;
        [radius * cos + noise[[k, 0]], radius * sin + noise[[k, 1]]]
    };
    let points = (0..count).flat_map(point).collect();
    (emmy::tensor::tensor(&[count, 2], points), labels)
}

/// Trains with the loss cross-entropy + `weight` · bound, and prints what came out.
fn run(weight: f64) -> Result<()> {
    let (x, labels) = circles(200, 1);
    let (x_test, labels_test) = circles(200, 2);
    let mut net = Net::<f64>::new(2, 2, 0);
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    for step in 0..200 {
        train::step(&mut net, &mut optimizer, 0.02, step, |net, pass| {
            let x = pass.tape().var(x.clone());
            let y = net.forward(pass, x);
            let loss = y.cross_entropy(&labels, None);
            if weight == 0.0 {
                return loss;
            }
            // The bound is a formula of the weights, read off the tape; it has a derivative.
            let bound = bound(y, x, Lp::Two, Domain::Everywhere).and_then(|bound| bound.var());
            loss + bound
                .expect("every operation here has a bound")
                .scale(weight)
        })?;
    }
    let trace = Trace::at(&net, &x_test, |pass, x| net.forward(pass, x));
    let tape = emmy::Tape::new();
    let logits = net.forward(&Pass::eval(&tape, &net), tape.constant(x_test.clone()));
    let all = vec![true; labels_test.len()];
    let percent = 100.0 * metrics::accuracy(&logits.value(), &labels_test, &all);
    println!("\nweight of the bound {weight}: test accuracy {percent:.1} %");
    println!(
        "constant of the network, p = 2: {}",
        trace.lipschitz(Lp::Two)?
    );
    println!("{}", trace.lipschitz_by_layer(Lp::Two, Domain::Everywhere)?);
    Ok(())
}

/// Prints what is known of the network in a file: the product of norms, and both ends of its constant.
fn interval(path: &Path) -> Result<()> {
    let file = Weights::open(path)?;
    let mut names: Vec<&str> = file
        .keys()
        .filter_map(|k| k.strip_suffix("weight"))
        .collect();
    // `linear_2` before `linear_10`.
    names.sort_by_key(|name| (name.len(), *name));
    let matrix = |name: &&str| {
        let w = file.get::<f64>(&format!("{name}weight"))?.into_owned();
        let refuse = |_| Error::invalid(path.display().to_string(), "matrices [out, in]", *name);
        w.into_dimensionality().map_err(refuse)
    };
    let weights = names.iter().map(matrix).collect::<Result<Vec<_>>>()?;
    let hidden = &names[..names.len().saturating_sub(1)];
    let bias = |name: &&str| Ok(file.get(&format!("{name}bias"))?.iter().copied().collect());
    let biases = hidden.iter().map(bias).collect::<Result<_>>()?;
    let product: Upper = weights.iter().map(|w| Lp::Two.matrix(w.view())).product();
    let start = Instant::now();
    let network = Network::chain(weights, [0.0, 1.0])?;
    let certificate = network.certify()?;
    let seconds = start.elapsed().as_secs_f64();
    let verified = network.verify(&certificate).is_ok();
    let found = Pieces::new(network, biases)?.climb(4, 0);
    let lower = found.map_or(0.0, |found| found.lower.get());
    let (product, upper) = (product.get(), certificate.lipschitz);
    let net = path.file_stem().unwrap_or_default().to_string_lossy();
    println!(
        "{{\"net\":{net:?},\"product\":{product},\"upper\":{upper},\"lower\":{lower},\
         \"seconds\":{seconds},\"verified\":{verified}}}"
    );
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    match &args[..] {
        [] => [0.0, 0.01].into_iter().try_for_each(run),
        [networks, folder, json] if networks == "--networks" && json == "--json" => {
            let files = std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))?;
            let mut files: Vec<PathBuf> = files.filter_map(|f| Some(f.ok()?.path())).collect();
            files.retain(|path| path.extension().is_some_and(|end| end == "safetensors"));
            files.sort();
            for path in files {
                // A file that is no chain of matrices is left out.
                interval(&path).unwrap_or_else(|e| eprintln!("{e}"));
            }
            Ok(())
        }
        _ => Err(Error::invalid(
            "arguments",
            "none, or --networks DIR --json",
            args.join(" ".as_ref()).to_string_lossy(),
        )),
    }
}
