//! Zachary's karate club broke up. Two leaders are known; a graph network finds out who followed whom.

use emmy::nn::{GcnConv, Module, Pass};
use emmy::optim::{Method, Optimizer};
use emmy::train::metrics::accuracy;
use emmy::{Real, Tape, data, init};

/// Two graph convolutions. The macro lists the fields that are learnt.
struct Net<F: Real> {
    hidden: GcnConv<F>,
    out: GcnConv<F>,
}
emmy::module!(Net: hidden, out);

fn main() -> emmy::Result<()> {
    let club = data::karate();
    let split = club.split(0)?;
    let features = club.raw_features::<f32>();
    let adjacency = club.graph.gcn_norm();

    let rng = &mut init::rng(0);
    let mut net = Net {
        hidden: GcnConv::new(club.feature_count(), 8, true, rng),
        out: GcnConv::new(8, club.classes, true, rng),
    };
    let mut optimizer = Optimizer::new(Method::ADAM);

    for epoch in 0..=100 {
        // A fresh tape records the forward pass; parameters are bound to it as they are used.
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, epoch);
        let x = tape.sparse(&features);
        let h = net.hidden.forward(&pass, x, &adjacency).tanh();
        let logits = net.out.forward(&pass, h, &adjacency);
        let loss = logits.cross_entropy(&club.labels, Some(&split.train));

        if epoch % 20 == 0 {
            let found = accuracy(&logits.value(), &club.labels, &split.test);
            println!(
                "epoch {epoch:3}: loss {:.3}, {:.0} % of the others found",
                loss.item(),
                100.0 * found
            );
        }

        let gradients = pass.gradients(loss);
        let parameters = net.parameters_mut().into_iter().map(|(_, p)| p);
        optimizer.step(parameters, &gradients, 0.01);
    }
    Ok(())
}
