//! A graph network of a user's own, trained on a generated graph like Cora. It prints the test accuracy and the
//! time per epoch.

use emmy::nn::{GcnConv, Pass};
use emmy::optim::{Algorithm, Optimizer};
use emmy::sparse::Csr;
use emmy::train::{self, metrics::accuracy};
use emmy::{Real, Tensor, Var, data, init};
use std::time::Instant;

struct Net<F: Real> {
    hidden: GcnConv<F>,
    out: GcnConv<F>,
}
emmy::module!(Net: hidden, out);

impl<F: Real> Net<F> {
    /// The scores of the classes per node: Ã σ(Ã X W₁ᵀ) W₂ᵀ.
    fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        adjacency: &Csr<F>,
    ) -> Var<'t, F> {
        let h = self.hidden.forward(pass, x, adjacency).relu();
        self.out.forward(pass, h, adjacency)
    }
}

fn trained(epochs: u64) -> emmy::Result<f64> {
    let set = data::cora_like(0);
    let (split, adjacency) = (set.split(0)?, set.graph.gcn_norm());
    let features: Tensor<f32> = set.normalized_features().to_dense();
    let rng = &mut init::rng(0);
    let mut net = Net {
        hidden: GcnConv::new(set.feature_count(), 16, true, rng),
        out: GcnConv::new(16, set.classes, true, rng),
    };
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    let mut found = 0.0;
    for epoch in 0..epochs {
        train::step(&mut net, &mut optimizer, 0.01, epoch, |net, pass| {
            let logits = net.forward(pass, pass.tape().constant(features.clone()), &adjacency);
            found = accuracy(&logits.value(), &set.labels, &split.test);
            logits.cross_entropy(&set.labels, Some(&split.train))
        })?;
    }
    Ok(found)
}

fn main() -> emmy::Result<()> {
    let epochs = 20;
    let begin = Instant::now();
    let found = trained(epochs)?;
    let ms = begin.elapsed().as_secs_f64() * 1e3 / epochs as f64;
    println!("{epochs} epochs: test accuracy {:.1} %, {ms:.1} ms per epoch", 100.0 * found);
    Ok(())
}
