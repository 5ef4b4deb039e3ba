//! Questions to a network of your own: its layers, its conservation laws, how far its output can move.

use emmy::nn::{Linear, Trace};
use emmy::{init, lipschitz::Lp};

struct Net {
    inner: Linear<f64>,
    outer: Linear<f64>,
}
emmy::module!(Net for f64: inner, outer);

fn main() -> emmy::Result<()> {
    let rng = &mut init::rng(0);
    let (inner, outer) = (Linear::new(4, 8, true, rng), Linear::new(8, 3, true, rng));
    let net = Net { inner, outer };
    let x = init::normal(&[5, 4], 1.0, rng);
    let trace = Trace::at(&net, &x, |pass, x| {
        net.outer.forward(pass, net.inner.forward(pass, x).relu())
    });
    print!("{}", trace.summary());
    for law in trace.laws() {
        println!("law: {}", law.formula(trace.names()));
    }
    println!("Lipschitz constant, p = 2: {}", trace.lipschitz(Lp::Two)?);
    Ok(())
}
