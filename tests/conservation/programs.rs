//! No law is listed that does not hold, whatever the module.
//!
//! A module is drawn from a seed: layers of the library, layers with stated ports, and the operations that attack
//! bounds (`tests/lipschitz/programs.rs`), in any order. A layer may be used never, once or twice, on values of
//! any origin. Outputs are the last value and some others. Twelve kinds of false laws were found in modules that
//! nobody would write.

#[path = "../programs/mod.rs"]
mod drawn;
mod own;

use crate::cases::{cases, number};
use crate::support::{draw_all, loss_of, normal};
use drawn::{Draw, Machine};
use emmy::nn::{
    AttentionConfig, AttentionOptions, BatchNorm, Embedding, GatConv, Gatv2Conv, Heads, LayerNorm,
    Linear, Module, MultiHeadAttention, Pass, RmsNorm, Trace,
};
use emmy::ops::attention::Mask;
use emmy::symmetry::{Law, Residual};
use emmy::{Tape, Var, init};
use own::Own;

/// The largest width of a value.
const WIDTHS: usize = 3;

/// Layers for every width.
struct Net {
    /// From every width to every width.
    linear: Vec<Linear<f64>>,
    layer_norm: Vec<LayerNorm<f64>>,
    rms_norm: Vec<RmsNorm<f64>>,
    batch_norm: Vec<BatchNorm<f64>>,
    gat: Vec<GatConv<f64>>,
    gatv2: Vec<Gatv2Conv<f64>>,
    embedding: Embedding<f64>,
    attention: MultiHeadAttention<f64>,
    own: Vec<Own>,
}
emmy::module!(Net for f64:
    linear, layer_norm, rms_norm, batch_norm, gat, gatv2, embedding, attention, own);

impl Net {
    fn draw(d: &mut Draw) -> Self {
        let rng = &mut init::rng(0);
        let widths = 1..=WIDTHS;
        let eps = [0.0, 0.1][d.count(0, 1)];
        let options = AttentionOptions {
            heads: d.count(1, 2),
            bias: d.flag(),
            residual: d.flag(),
            join: [Heads::Concatenate, Heads::Average][d.count(0, 1)],
            ..AttentionOptions::DEFAULT
        };
        let mut gain = |width: usize| d.flag().then(|| normal(&[width], 0));
        let layer_norm = |w| LayerNorm {
            gain: gain(w),
            bias: gain(w),
            eps,
        };
        let layer_norm = widths.clone().map(layer_norm).collect();
        let rms_norm = widths
            .clone()
            .map(|w| RmsNorm { gain: gain(w), eps })
            .collect();
        let batch_norm = |w| BatchNorm {
            gain: gain(w),
            bias: gain(w),
            running: None,
            momentum: 0.1,
            eps,
        };
        let batch_norm = widths.clone().map(batch_norm).collect();
        let mut linear = Vec::new();
        for (i, o) in (1..=WIDTHS).flat_map(|i| (1..=WIDTHS).map(move |o| (i, o))) {
            linear.push(Linear::new(i, o, d.flag(), rng));
        }
        let gat = widths
            .clone()
            .map(|w| GatConv::new(w, d.count(1, 2), options, rng))
            .collect();
        let gatv2 = |w| Gatv2Conv::new(w, d.count(1, 2), d.flag(), options, rng);
        let gatv2 = widths.map(gatv2).collect();
        let config = AttentionConfig {
            bias: d.flag(),
            ..AttentionConfig::new(2, d.count(1, 2))
        };
        let mut net = Self {
            linear,
            layer_norm,
            rms_norm,
            batch_norm,
            gat,
            gatv2,
            embedding: Embedding::new(4, d.count(1, WIDTHS), rng),
            attention: MultiHeadAttention::new(config, rng).expect("heads divide the width"),
            own: Vec::new(),
        };
        draw_all(&mut net, d.seed());
        net.own = (0..8).map(|_| Own::draw(d)).collect();
        net
    }

    /// A layer on one of the values; none if the one that is drawn does not fit.
    fn layer<'t>(
        &self,
        pass: &Pass<'t, '_, f64>,
        m: &mut Machine<'t>,
    ) -> Option<(String, Var<'t, f64>)> {
        let x = m.any();
        let shape = x.shape();
        let &[.., rows, width] = &shape[..] else {
            return None;
        };
        let at = width.checked_sub(1).filter(|&at| at < WIDTHS)?;
        let made = |name: String, y| Some((format!("{name} {shape:?}"), y));
        match m.d.count(0, 13) {
            0..=4 => {
                let out = m.d.count(0, WIDTHS - 1);
                let layer = &self.linear[WIDTHS * at + out];
                made(
                    format!("linear {width} {}", out + 1),
                    layer.forward(pass, x),
                )
            }
            5 => made("layer norm".into(), self.layer_norm[at].forward(pass, x)),
            6 => made("RMS norm".into(), self.rms_norm[at].forward(pass, x)),
            7 if rows > 1 => made("batch norm".into(), self.batch_norm[at].forward(pass, x)),
            8 | 9 if shape.len() == 2 => {
                let pattern = m.d.pattern(rows, rows);
                match m.d.flag() {
                    true => made("GAT".into(), self.gat[at].forward(pass, x, &pattern)),
                    false => made("GATv2".into(), self.gatv2[at].forward(pass, x, &pattern)),
                }
            }
            10 => {
                let indices: Vec<usize> = (0..rows).map(|_| m.d.count(0, 3)).collect();
                made(
                    format!("embedding {indices:?}"),
                    self.embedding.forward(pass, &indices),
                )
            }
            11 if width == 2 => made(
                "attention".into(),
                self.attention.forward(pass, x, &Mask::none()),
            ),
            _ => {
                let k = m.d.count(0, self.own.len() - 1);
                let layer = &self.own[k];
                if !layer.takes(&shape) {
                    return None;
                }
                let y = m.operand(&shape);
                made(
                    format!("layer {k}, {:?}", layer.form),
                    layer.forward(pass, x, y),
                )
            }
        }
    }
}

struct Program {
    net: Net,
    seed: u64,
}

impl Program {
    fn new(seed: u64) -> Self {
        let net = Net::draw(&mut Draw::new(seed));
        Self { net, seed }
    }

    /// The outputs, and what was done.
    fn run<'t>(&self, pass: &Pass<'t, '_, f64>) -> (Vec<Var<'t, f64>>, Vec<String>) {
        let data = Draw::new(self.seed.rotate_left(32)).numbers(&[3, 2 + self.seed as usize % 2]);
        let mut m = Machine::new(pass.tape().constant(data), !self.seed);
        m.run(3 + self.seed as usize % 6, |m| {
            if m.d.flag() {
                let made = self.net.layer(pass, m);
                m.keep(made);
            } else {
                m.step();
            }
        });
        let mut outputs = vec![m.last()];
        for _ in 0..m.d.count(0, 2) {
            outputs.push(m.any());
        }
        // A softmax needs an axis.
        let with_axis = |y: Var<'t, f64>| if y.ndim() == 0 { y.reshape(&[1]) } else { y };
        let outputs = outputs.into_iter().map(with_axis).collect();
        (outputs, m.done)
    }
}

/// How many laws there were, and how many with a term that is not zero.
#[derive(Default)]
struct Count {
    laws: usize,
    filled: usize,
}

/// δ of each law.
fn measured(program: &Program, laws: &[Law], softmax: bool) -> Vec<Residual> {
    let (tape, net) = (Tape::new(), &program.net);
    let pass = Pass::train(&tape, net, 0);
    let gradients = pass.gradients(loss_of(&program.run(&pass).0, softmax));
    let measure = |law: &Law| law.measure(&net.tensors(), &gradients);
    laws.iter().map(measure).collect()
}

/// A false law is off by about 1.
const OFF: f64 = 1e-3;

/// The part of the largest terms that says nothing.
const TINY: f64 = 1e-9;

fn check(seed: u64, count: &mut Count) {
    let mut program = Program::new(seed);
    let (mut done, mut names) = (Vec::new(), Vec::new());
    let lists = {
        let trace = Trace::of_several(&program.net, |pass| {
            let (outputs, operations) = program.run(pass);
            done = operations;
            outputs
        });
        names.extend_from_slice(trace.names());
        [(trace.laws(), false), (trace.softmax_laws(), true)]
    };
    let [here, softmax_here] = lists
        .each_ref()
        .map(|(laws, softmax)| measured(&program, laws, *softmax));
    // Gradients that 10⁻¹⁰ of the parameters changes are rounding, as behind a norm of equal rows.
    for (k, tensor) in program.net.tensors_mut().into_iter().enumerate() {
        *tensor += &normal(tensor.shape(), k as u64).mapv(|x| 1e-10 * x);
    }
    for ((laws, softmax), here) in lists.iter().zip([here, softmax_here]) {
        let near = measured(&program, laws, *softmax);
        let sizes = here.iter().flat_map(|found| &found.size);
        let floor = TINY * sizes.fold(1.0, |m: f64, &x| m.max(x));
        for (law, (found, near)) in laws.iter().zip(here.iter().zip(&near)) {
            count.laws += 1;
            let steady: Vec<usize> = (0..found.size.len())
                .filter(|&j| (found.size[j] - near.size[j]).abs() <= OFF * OFF * found.size[j])
                .collect();
            count.filled += usize::from(steady.iter().any(|&j| found.size[j] > floor));
            for j in steady {
                let (delta, size) = (found.delta[j], found.size[j]);
                assert!(
                    delta.abs() <= OFF * size.max(floor),
                    "seed {seed}, softmax {softmax}: {}, entry {j}: {delta}, size {size}\n{}\n{}",
                    law.name,
                    law.formula(&names),
                    done.join("\n")
                );
            }
        }
    }
}

#[test]
fn no_law_is_false() {
    let mut count = Count::default();
    for seed in cases(4000) {
        check(seed, &mut count);
    }
    let (drawn, Count { laws, filled }) = (number(4000) as usize, count);
    println!("{drawn} programs, {laws} laws, {filled} with terms that are not zero");
    // Most programs have a law, and many laws could fail.
    assert!(laws > drawn && 3 * filled > laws);
}
