//! Zachary's karate club broke up. Two leaders are known; a graph network finds whom each member followed.

use emmy::nn::GcnConv;
use emmy::optim::{Algorithm, Optimizer};
use emmy::train::{self, metrics::accuracy};
use emmy::{data, init};
use std::io::{Write, stdout};

/// Two graph convolutions. The macro lists the fields that are learnt.
struct Net {
    hidden: GcnConv<f32>,
    out: GcnConv<f32>,
}
emmy::module!(Net for f32: hidden, out);

fn main() -> emmy::Result<()> {
    let club = data::karate();
    let (split, features, graph) = (club.split(0)?, club.raw_features(), club.graph.gcn_norm());
    let rng = &mut init::rng(0);
    let hidden = GcnConv::new(club.feature_count(), 8, true, rng);
    let out = GcnConv::new(8, club.classes, true, rng);
    let mut net = Net { hidden, out };
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    for epoch in 0..=20 {
        let mut found = 0.0;
        // One step: a pass over the network on a fresh tape, the gradient of the loss, an update.
        let loss = train::step(&mut net, &mut optimizer, 0.01, epoch, |net, pass| {
            let x = pass.tape().sparse(&features);
            let h = net.hidden.forward(pass, x, &graph).tanh();
            let logits = net.out.forward(pass, h, &graph);
            found = 100.0 * accuracy(&logits.value(), &club.labels, &split.test);
            logits.cross_entropy(&club.labels, Some(&split.train))
        })?;
        let line = format!("epoch {epoch:2}: loss {loss:.3}, {found:.0} % of the others found");
        if epoch % 10 == 0 && writeln!(stdout(), "{line}").is_err() {
            break; // Nobody reads on, as after `| head`.
        }
    }
    Ok(())
}
