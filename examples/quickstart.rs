//! Zachary's karate club broke up. Two leaders are known; a graph network predicts which leader each member
//! followed.

use emmy::nn::GcnConv;
use emmy::optim::{Algorithm, Optimizer};
use emmy::train::{self, metrics::accuracy};
use emmy::{Real, data, init};
use std::io::{Write, stdout};

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
    let mut optimizer = Optimizer::new(Algorithm::ADAM);

    let mut found = 0.0;
    for epoch in 0..=20 {
        // One step: a pass over the network on a fresh tape, the gradient of the loss, an update.
        let loss = train::step(&mut net, &mut optimizer, 0.01, epoch, |net, pass| {
            let x = pass.tape().sparse(&features);
            let h = net.hidden.forward(pass, x, &adjacency).tanh();
            let logits = net.out.forward(pass, h, &adjacency);
            found = accuracy(&logits.value(), &club.labels, &split.test);
            logits.cross_entropy(&club.labels, Some(&split.train))
        })?;
        if epoch % 5 == 0 {
            let found = 100.0 * found;
            let line = format!("epoch {epoch:2}: loss {loss:.3}, {found:.0} % of the others found");
            if writeln!(stdout(), "{line}").is_err() {
                break; // Nobody reads on, as after `| head`.
            }
        }
    }
    Ok(())
}
