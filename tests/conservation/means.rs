//! C22: the mean of a stream, which norms remove, and weights that read rows of mean zero.

use crate::cases::cases;
use crate::compositions::{
    Composition, any_loss, conserved, fails, is_whole, linear, listed, names, vanishes,
};
use emmy::autodiff::checkpoint;
use emmy::init;
use emmy::nn::{LayerNorm, Linear, Pass, Trace, discover};
use emmy::symmetry::{Law, Search, Slice, Symmetry, Term};
use emmy::{Real, Tensor, Var};
use proptest::prelude::*;

/// The norms in front of the blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Gain,
    /// The operation, without a layer around it.
    Fused,
    /// The norm as a user writes it, with operations.
    ByHand,
    Rms,
}

/// LayerNorm without gain and bias, by its parts.
fn by_hand<F: Real>(x: Var<'_, F>, eps: f64) -> Var<'_, F> {
    let variance = x.var(&[-1], true).add_scalar(F::of(eps));
    (x - x.mean(&[-1], true)) / variance.sqrt()
}

/// How the readout reads the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Raw,
    /// Behind a norm.
    Norm,
    /// Behind a ReLU.
    Relu,
    /// After a norm; and directly before the first block by a separate map.
    Early,
}

/// x ← E e,   x ← x + W₂ relu(W₁ norm x) in every block,   y = R x.
#[derive(Debug, Clone)]
struct PreNorm<F: Real> {
    embed: Linear<F>,
    early: Option<Linear<F>>,
    norms: Vec<LayerNorm<F>>,
    firsts: Vec<Linear<F>>,
    seconds: Vec<Linear<F>>,
    readout: Linear<F>,
    case: Case,
    x: Tensor<F>,
}
emmy::module!(PreNorm: embed, early, norms, firsts, seconds, readout);

#[derive(Debug, Clone, Copy)]
struct Case {
    rows: usize,
    width: usize,
    hidden: usize,
    blocks: usize,
    bias: bool,
    kind: Kind,
    end: End,
    eps: f64,
    seed: u64,
}

const CASE: Case = Case {
    rows: 6,
    width: 5,
    hidden: 4,
    blocks: 1,
    bias: true,
    kind: Kind::Plain,
    end: End::Raw,
    eps: 1e-2,
    seed: 0,
};

impl Case {
    fn draw<F: Real>(self) -> PreNorm<F> {
        let rng = &mut init::rng(self.seed);
        let (d, h) = (self.width, self.hidden);
        let mut maps = |input, out| {
            let blocks = 0..self.blocks;
            blocks.map(|_| linear(input, out, self.bias, rng)).collect()
        };
        let (firsts, seconds) = (maps(d, h), maps(h, d));
        let mut norm = || match self.kind {
            Kind::Gain => LayerNorm {
                gain: Some(init::normal(&[d], 1.0, rng)),
                bias: Some(init::normal(&[d], 1.0, rng)),
                eps: self.eps,
            },
            _ => LayerNorm::plain(self.eps),
        };
        PreNorm {
            norms: (0..self.blocks).map(|_| norm()).collect(),
            embed: linear(3, d, self.bias, rng),
            early: (self.end == End::Early).then(|| linear(d, 2, self.bias, rng)),
            firsts,
            seconds,
            readout: linear(d, 2, self.bias, rng),
            case: self,
            x: init::normal(&[self.rows, 3], 1.0, rng),
        }
    }
}

impl<F: Real> PreNorm<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let Case { kind, end, eps, .. } = self.case;
        let mut x = (self.embed).forward(pass, pass.tape().constant(self.x.clone()));
        let early = self.early.as_ref().map(|map| map.forward(pass, x));
        let blocks = self.norms.iter().zip(&self.firsts).zip(&self.seconds);
        for ((norm, first), second) in blocks {
            let y = match kind {
                Kind::Plain | Kind::Gain => norm.forward(pass, x),
                Kind::Fused => x.layer_norm(None, None, F::of(eps)),
                Kind::ByHand => by_hand(x, eps),
                Kind::Rms => x.rms_norm(None, F::zero()),
            };
            x = x + second.forward(pass, first.forward(pass, y).relu());
        }
        let last = match end {
            End::Raw => x,
            End::Norm => by_hand(x, eps),
            End::Early => x.layer_norm(None, None, F::of(eps)),
            End::Relu => x.relu(),
        };
        let y = self.readout.forward(pass, last);
        early.into_iter().fold(y, |y, early| y + early)
    }

    fn laws(&self) -> Vec<Law> {
        Trace::of(self, |pass| self.outputs(pass)).laws()
    }
}

impl<F: Real> Composition<F> for PreNorm<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(self.outputs(pass), self.case.seed)
    }
}

fn named(laws: &[Law]) -> Vec<&str> {
    laws.iter().map(|law| law.name.as_str()).collect()
}

/// Three neurons or more: for two numbers the output of a norm is only a sign.
fn drawn() -> impl Strategy<Value = Case> {
    let sizes = (3..7_usize, 3..7_usize, 1..5_usize, 1..4_usize);
    let kind = prop::sample::select(&[Kind::Plain, Kind::Gain, Kind::Fused, Kind::ByHand][..]);
    (sizes, any::<bool>(), kind, any::<u64>()).prop_map(
        |((rows, width, hidden, blocks), bias, kind, seed)| Case {
            rows,
            width,
            hidden,
            blocks,
            bias,
            kind,
            seed,
            ..CASE
        },
    )
}

proptest! {
    #![proptest_config(crate::support::proptest_cases(60))]

    #[test]
    fn c22_the_mean_of_a_stream_read_raw_is_a_channel_of_its_own(
        case in drawn(),
        exact: bool,
        end in prop::sample::select(&[End::Raw, End::Norm, End::Relu, End::Early][..]),
    ) {
        let case = Case { end, eps: if exact { 0.0 } else { 1e-2 }, ..case };
        let net = case.draw::<f64>();
        let laws = net.laws();
        let has = |what: &str| laws.iter().any(|law| law.name.ends_with(what));
        prop_assert_eq!(has("embed, mean"), matches!(end, End::Raw | End::Early));
        // The stream before the first block has another size than the output of a norm.
        prop_assert_eq!(has("embed, scale"), exact);
        let shifts = |of: &str| laws.iter().any(|law| law.name.starts_with(&format!("{of}, shift")));
        prop_assert_eq!(shifts("embed"), end == End::Norm);
        prop_assert!(end != End::Norm || shifts("second 1"));
        // All maps after norms without gain read rows of mean zero.
        prop_assert_eq!(has("first 1, rows"), case.kind != Kind::Gain);
        prop_assert_eq!(has("readout, rows"), matches!(end, End::Norm | End::Early));
        conserved(&net, &case.draw::<f32>(), &laws);
    }
}

#[test]
fn formulas() {
    let mean = "embed, mean: ⟨P embed.weight, G⟩ + ⟨P embed.bias, G⟩ + ⟨P seconds.0.weight, G⟩ \
                + ⟨P seconds.0.bias, G⟩ − ⟨readout.weight P, G⟩ = 0, P = 11ᵀ/5";
    let scale = "embed, scale: ⟨embed.weight, G⟩ + ⟨embed.bias, G⟩ + ⟨seconds.0.weight, G⟩ \
                 + ⟨seconds.0.bias, G⟩ − ⟨readout.weight, G⟩ = 0";
    let always = [
        mean,
        "second 1, bias, against embed, sum: Σ G of seconds.0.bias − Σ G of embed.bias = 0",
        "first 1, neurons: ⟨firsts.0.weight[j,:], G⟩ + ⟨firsts.0.bias[j], G⟩ \
         − ⟨seconds.0.weight[:,j], G⟩ = 0",
        "first 1, rows: Σ G of firsts.0.weight[j,:] = 0",
    ];
    for kind in [Kind::Plain, Kind::Fused, Kind::ByHand] {
        for (eps, first) in [(1e-2, &[][..]), (0.0, &[scale])] {
            let net = Case { kind, eps, ..CASE }.draw::<f64>();
            let line = |law: &Law| format!("{}: {}", law.name, law.formula(&names(&net)));
            let found: Vec<String> = net.laws().iter().map(line).collect();
            assert_eq!(found, [first, &always].concat());
        }
    }
}

/// If the stream is first read without a norm, the laws of the blocks that read it through a norm still hold.
#[test]
fn the_mean_costs_no_other_law() {
    let net = Case {
        end: End::Early,
        ..CASE
    }
    .draw::<f64>();
    let expected = [
        "embed, mean",
        "readout, bias, against early",
        "first 1, neurons",
        "second 1, shift, 1",
        "second 1, shift, 2",
        "first 1, rows",
        "readout, rows",
    ];
    assert_eq!(named(&net.laws()), expected);
}

#[test]
fn n_root_mean_square_sees_the_mean() {
    fails(|seed| {
        let case = Case { seed, ..CASE };
        let mut laws = case.draw::<f64>().laws();
        laws.retain(|law| law.name == "embed, mean");
        assert_eq!(laws.len(), 1);
        let net = Case {
            kind: Kind::Rms,
            ..case
        }
        .draw::<f64>();
        assert!(!named(&net.laws()).contains(&"embed, mean"));
        (net, laws)
    });
}

#[test]
fn n_behind_a_gain_rows_do_not_sum_to_zero() {
    fails(|seed| {
        let net = Case {
            kind: Kind::Gain,
            seed,
            ..CASE
        }
        .draw::<f64>();
        let all = names(&net);
        let read = all.iter().position(|name| name == "firsts.0.weight");
        let rows = Slice::new(read.expect("a map"), [1, CASE.hidden, CASE.width]);
        let terms = vec![Term::incoming(rows)];
        (net, vec![Law::new("rows", 1, Symmetry::Translation, terms)])
    });
}

#[derive(Debug, Clone)]
struct Pair<F: Real> {
    first: Linear<F>,
    last: Linear<F>,
    way: usize,
    seed: u64,
}
emmy::module!(Pair: first, last);

impl Pair<f64> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, f64>) -> Var<'t, f64> {
        let x = init::normal(&[4, 3], 1.0, &mut init::rng(self.seed));
        let y = self.first.forward(pass, pass.tape().constant(x));
        let norm = |x: Var<'t, f64>| LayerNorm::plain(1e-2).forward(pass, x);
        let last = |x: Var<'t, f64>| self.last.forward(pass, x);
        let mean = y.mean(&[-1], true);
        match self.way {
            // Centred.
            0 => last(norm(y)),
            1 => last((y - mean).scale(-2.0) + norm(y.tanh())),
            2 => last(norm(y) * y.max(&[-1], true).tanh()),
            3 => last(norm(y).index_select(0, vec![2, 0, 0])) + last(norm(y)).sum_all(),
            // Not centred.
            4 => last(norm(y).relu()),
            5 => last(norm(y) + y),
            6 => last(norm(y)) + last(y),
            7 => last(norm(y)) + pass.param(&self.last.weight).tanh().sum_all(),
            8 => last(y - mean.scale(0.5)),
            9 => last(checkpoint("alias", &[norm(y)], |x| x[0].exp())),
            10 => last(norm(y) * y),
            11 => last(y - mean.index_select(0, vec![1, 0, 3, 2])),
            // The mean of each row off every row.
            12 => last(y - mean.reshape(&[4, 1, 1])).sum(&[0], false),
            _ => last(y.max(&[-1], true) - y),
        }
    }
}

impl Composition<f64> for Pair<f64> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, f64>) -> Var<'t, f64> {
        any_loss(self.outputs(pass), self.seed)
    }
}

#[test]
fn a_weight_that_reads_anything_else_has_no_law_of_rows() {
    for way in 0..14 {
        for seed in cases(6) {
            let rng = &mut init::rng(seed);
            let (first, last) = (linear(3, 5, true, rng), linear(5, 2, true, rng));
            let net = Pair {
                first,
                last,
                way,
                seed,
            };
            let laws = Trace::of(&net, |pass| net.outputs(pass)).laws();
            let found = named(&laws).contains(&"last, rows");
            assert_eq!(found, way < 4, "way {way}: {:?}", named(&laws));
            vanishes(&net, &laws, 1e-10);
        }
    }
}

/// The norm removes the means of both terms of x + σ(W x); that of x is read before.
struct Post {
    embed: Linear<f64>,
    block: Linear<f64>,
    norm: LayerNorm<f64>,
    readout: Linear<f64>,
}
emmy::module!(Post for f64: embed, block, norm, readout);

impl Post {
    fn draw() -> Self {
        let rng = &mut init::rng(0);
        Self {
            embed: Linear::new(3, 5, true, rng),
            block: Linear::new(5, 5, true, rng),
            norm: LayerNorm::new(5),
            readout: Linear::new(5, 2, true, rng),
        }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let x = init::normal(&[7, 3], 1.0, &mut init::rng(seed));
        let x = self.embed.forward(pass, pass.tape().constant(x));
        let x = x + self.block.forward(pass, x).relu();
        self.readout.forward(pass, self.norm.forward(pass, x))
    }
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn the_mean_of_one_writer_passes_where_that_of_another_breaks() {
    let net = Post::draw();
    let laws = Trace::of(&net, |pass| net.output(pass, 0)).laws();
    assert_eq!(
        listed(&net, &laws),
        [
            "embed, mean: ⟨P embed.weight, G⟩ + ⟨P embed.bias, G⟩ − ⟨block.weight P, G⟩ = 0, P = 11ᵀ/5",
            "norm, neurons: ⟨norm.gain[j], G⟩ + ⟨norm.bias[j], G⟩ − ⟨readout.weight[:,j], G⟩ = 0",
        ]
    );
    let found = discover(&net, &Search::default(), |pass, seed| {
        net.output(pass, seed)
    });
    is_whole(&found, 1 + 5, "x + σ(W x) before a norm");
}
