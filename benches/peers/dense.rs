//! Milliseconds of dense work, beside PyTorch (`dense.py`, `compare.py --set dense`), `f32`.
//!
//! One JSON object per row on standard output. Both sides begin with the same numbers, and `checks` holds
//! two numbers per result (the output, then the gradients), so that the two sides can be compared.
//! `floor_ms` is the time that the hardware needs at least.

#[path = "../support/mod.rs"]
mod support;

use emmy::autodiff::vjp;
use emmy::kernels::par;
use emmy::nn::{Activation, ContraConfig, LayerNorm, Linear, Lstm, Mlp, Module, Pass};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::optim::{Algorithm, Optimizer};
use emmy::tensor::{scalar, tensor};
use emmy::{Tape, Tensor, Var, init, train};
use support::Limits;
use support::options::{self, list, value};

const HELP: &str = "Time dense work

  --threads <N,..>  Numbers of threads [default: 1,4]
  --row <NAME,..>   Rows; all without it
  --seconds <S>     Seconds per row [default: 2]
  --memory          Measure the peak memory of some steps of the named rows, in place of their time";

struct Cli {
    threads: Vec<usize>,
    row: Vec<String>,
    seconds: f64,
    memory: bool,
}

impl Cli {
    fn parse() -> Self {
        let mut cli = Self {
            threads: vec![1, 4],
            row: Vec::new(),
            seconds: 2.0,
            memory: false,
        };
        options::read(HELP, |name, parser| {
            match name {
                "threads" => cli.threads = list(parser)?,
                "row" => cli.row = list(parser)?,
                "seconds" => cli.seconds = value(parser)?,
                "memory" => cli.memory = true,
                _ => return Ok(false),
            }
            Ok(true)
        });
        cli
    }
}

/// One step of a row. It shows its results (the output, then the gradients) to the function it is given, and
/// does not return them: the tape keeps the memory of what nobody else holds for the next step.
type Step = Box<dyn FnMut(&mut dyn FnMut(&Tensor<f32>))>;

/// What a step computes at least.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Multiply-adds of its products.
    Products(usize),
    /// Numbers that it reads and writes, where it has no products.
    Numbers(usize),
}

impl Work {
    /// Seconds that it takes at least.
    fn floor(self, limits: Limits) -> f64 {
        match self {
            Self::Products(count) => 2.0 * count as f64 / limits.flops,
            Self::Numbers(count) => 4.0 * count as f64 / limits.cache,
        }
    }

    /// Attention of 8 heads, 1024 positions, width 64 by so many products: 2 forward, and 4 backward, or 5 if
    /// the scores are computed again.
    const fn attention(products: usize) -> Self {
        Self::Products(products * 8 * 1024 * 1024 * 64)
    }

    /// The block: its maps forward, backward by the input and by the weight; attention of 8 sequences.
    const fn block(products: usize) -> Self {
        let maps = 3 * 2048 * (4 * 512 * 512 + 2 * 512 * 2048);
        Self::Products(maps + products * 8 * 256 * 256 * 512)
    }
}

/// The name of a row, the number of steps whose results are checked, the work, and what makes the step.
type Row = (&'static str, usize, Work, fn() -> Step);

const ROWS: [Row; 13] = [
    ("product-1024x1024x1024", 1, Work::Products(1 << 30), || {
        product(1024, 1024, 1024)
    }),
    ("product-2048x512x2048", 1, Work::Products(1 << 31), || {
        product(2048, 512, 2048)
    }),
    ("product-2048x2048x2048", 1, Work::Products(1 << 33), || {
        product(2048, 2048, 2048)
    }),
    ("attention-8x1024x64", 1, Work::attention(6), attention),
    ("attention-8x1024x64-fused", 1, Work::attention(7), || {
        fused_attention(false)
    }),
    ("l2-attention-8x1024x64", 1, Work::attention(7), || {
        fused_attention(true)
    }),
    // x and the cotangent are read, y and the gradient written.
    (
        "layer-norm-2048x512",
        1,
        Work::Numbers(4 * 2048 * 512),
        layer_norm,
    ),
    // The maps of input and state, forward and twice backward.
    (
        "lstm-12x64x128",
        1,
        Work::Products(3 * 2 * 12 * 64 * 128 * 512),
        lstm,
    ),
    // Scores and sums forward; backward one product for the scores, two for both roles of a row.
    (
        "contranorm-2708x64",
        1,
        Work::Products(5 * 2708 * 2708 * 64),
        contranorm,
    ),
    ("block-8x256x512", 1, Work::block(6), || {
        block(Block::attend)
    }),
    ("block-8x256x512-fused", 1, Work::block(7), || {
        block(Block::attend_fused)
    }),
    // The input of the first map has no gradient.
    (
        "mlp-784-512-512-10",
        10,
        Work::Products(256 * (2 * 784 * 512 + 3 * 512 * 522)),
        mlp,
    ),
    // The numbers stay in the registers or the first cache.
    ("chain-999", 1, Work::Numbers(2 * 64), chain),
];

// Numbers of the sequences; `dense.py` has the same. Inputs count from 0, weights from WEIGHTS.
const COTANGENT: usize = 8;
const CHECK: usize = 9;
const WEIGHTS: usize = 10;

fn main() {
    let cli = Cli::parse();
    options::known("row", &cli.row, &ROWS.map(|(name, ..)| name));
    for &threads in &cli.threads {
        par::with_threads(threads, || {
            for (name, checked, work, make) in ROWS {
                if !cli.row.is_empty() && !cli.row.iter().any(|row| row == name) {
                    continue;
                }
                let before = support::resident("VmRSS");
                let mut step = make();
                if cli.memory {
                    // The inputs are made in a wider format, whose memory does not count.
                    support::forget_peak();
                    (0..3).for_each(|_| step(&mut |_| ()));
                    let bytes = support::resident("VmHWM")
                        .zip(before)
                        .map(|(most, before)| most - before);
                    println!(
                        "{}",
                        serde_json::json!({
                            "who": "emmy", "row": name, "threads": threads,
                            "mb": bytes.map(|bytes| bytes as f64 / 1e6),
                        })
                    );
                    continue;
                }
                let mut checks = Vec::new();
                for _ in 0..checked {
                    step(&mut |x| checks.push(check(x)));
                }
                let (min, median) = support::time(10, cli.seconds, || step(&mut |_| ()));
                let ms = |s: f64| (s * 1e6).round() / 1e3;
                let floor = work.floor(Limits::measure());
                println!(
                    "{}",
                    serde_json::json!({
                        "who": "emmy", "row": name, "threads": threads,
                        "ms_min": ms(min), "ms_median": ms(median), "floor_ms": ms(floor),
                        "checks": checks,
                    })
                );
            }
        });
    }
}

/// Numbers in (−scale, scale) that look random: the fractional parts of 10⁴ sin(k + 0.37 · sequence).
fn numbers(shape: &[usize], sequence: usize, scale: f64) -> Tensor<f32> {
    let number = |k: usize| {
        let x = 1e4 * (k as f64 + 0.37 * sequence as f64).sin();
        (scale * (2.0 * (x - x.floor()) - 1.0)) as f32
    };
    tensor(shape, (0..shape.iter().product()).map(number).collect())
}

/// The norm of a result, and its inner product with fixed numbers.
fn check(x: &Tensor<f32>) -> [f64; 2] {
    let weights = numbers(x.shape(), CHECK, 1.0);
    let terms = x.iter().zip(&weights);
    let [square, product] = terms.fold([0.0, 0.0], |[square, product], (&x, &w)| {
        let (x, w) = (f64::from(x), f64::from(w));
        [square + x * x, product + w * x]
    });
    [square.sqrt(), product]
}

/// Shows y, then the gradients of ⟨y, c⟩ with respect to the xs, for a fixed c.
fn differentiate(
    y: Var<'_, f32>,
    xs: &[Var<'_, f32>],
    c: &Tensor<f32>,
    look: &mut dyn FnMut(&Tensor<f32>),
) {
    let gradients = vjp(y, xs, c);
    look(&y.value());
    gradients.iter().for_each(look);
}

/// Matrices start with entries up to 1/√in; biases start at 0 and gains at 1, as they are.
fn start(model: &mut impl Module<f32>) {
    for (k, p) in model.tensors_mut().into_iter().enumerate() {
        if let &[out, inputs] = p.shape() {
            *p = numbers(&[out, inputs], WEIGHTS + k, 1.0 / (inputs as f64).sqrt());
        }
    }
}

/// a b, m × k times k × n, without a derivative.
fn product(m: usize, k: usize, n: usize) -> Step {
    let (a, b) = (numbers(&[m, k], 0, 1.0), numbers(&[k, n], 1, 1.0));
    Box::new(move |look| {
        let tape = Tape::new();
        let y = tape.constant(&a).matmul(tape.constant(&b));
        look(&y.value());
    })
}

/// softmax(q kᵀ / √d) v over the last two axes.
fn attend<'t>(q: Var<'t, f32>, k: Var<'t, f32>, v: Var<'t, f32>) -> Var<'t, f32> {
    let d = q.shape()[q.ndim() - 1] as f32;
    (q.matmul(k.t()) / d.sqrt()).softmax(-1).matmul(v)
}

/// Attention with 8 heads, 1024 positions, width 64 per head: forward, and the gradients of q, k, v.
fn attention() -> Step {
    let shape = [1, 8, 1024, 64];
    let inputs = [0, 1, 2].map(|k| numbers(&shape, k, 1.0));
    let c = numbers(&shape, COTANGENT, 1.0);
    Box::new(move |look| {
        let tape = Tape::new();
        let [q, k, v] = inputs.each_ref().map(|x| tape.var(x));
        differentiate(attend(q, k, v), &[q, k, v], &c, look);
    })
}

/// The same as one operation: by scalar products, or by squared distances, −‖q − k‖² / √d.
fn fused_attention(by_distance: bool) -> Step {
    let shape = [1, 8, 1024, 64];
    // The operation has the heads behind the positions.
    let turned = |x: Tensor<f32>| -> Tensor<f32> {
        let x = x.permuted_axes(vec![0, 2, 1, 3]);
        x.as_standard_layout().into_owned().into_shared()
    };
    let inputs = [0, 1, 2].map(|k| turned(numbers(&shape, k, 1.0)));
    let c = turned(numbers(&shape, COTANGENT, 1.0));
    let mut attention = DenseAttention::new(64, Mask::none());
    if by_distance {
        attention.scale *= 2.0;
    }
    Box::new(move |look| {
        let tape = Tape::new();
        let [q, k, v] = inputs.each_ref().map(|x| tape.var(x));
        let beta = by_distance.then(|| k.square().sum(&[-1], false).scale(-0.5));
        let y = attention.attend(Qkv {
            beta,
            ..Qkv::new(q, k, v)
        });
        differentiate(y, &[q, k, v], &c, &mut |x| {
            look(&x.clone().permuted_axes(vec![0, 2, 1, 3]))
        });
    })
}

/// LayerNorm with gain and bias of 2048 rows: forward, and the gradients of x, gain and bias.
fn layer_norm() -> Step {
    let shape = [2048, 512];
    let (x, c) = (numbers(&shape, 0, 1.0), numbers(&shape, COTANGENT, 1.0));
    let norm = LayerNorm::new(512);
    Box::new(move |look| {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &norm, 0);
        let x = tape.var(&x);
        let y = norm.forward(&pass, x);
        differentiate(y, &[&[x][..], pass.vars()].concat(), &c, look);
    })
}

/// A layer of long short-term memory, 12 sequences of 64 steps, width 128: forward, and the gradients of x
/// and of the weights.
fn lstm() -> Step {
    let shape = [12, 64, 128];
    let (x, c) = (numbers(&shape, 0, 1.0), numbers(&shape, COTANGENT, 1.0));
    let mut layer = Lstm::new(128, 128, 1, &mut init::rng(0));
    for (k, p) in layer.tensors_mut().into_iter().enumerate() {
        *p = match p.shape() {
            [_, inputs] => numbers(p.shape(), WEIGHTS + k, 1.0 / (*inputs as f64).sqrt()),
            shape => Tensor::zeros(shape),
        };
    }
    Box::new(move |look| {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &layer, 0);
        let x = tape.var(&x);
        let (y, _) = layer.forward(&pass, x, None);
        differentiate(y, &[&[x][..], pass.vars()].concat(), &c, look);
    })
}

/// LayerNorm(H − ½ softmax(H Hᵀ) H), Guo et al., "ContraNorm", ICLR 2023: forward, and the gradients of H and
/// of gain and bias of the norm.
fn contranorm() -> Step {
    let (nodes, width) = (2708, 64);
    // With larger numbers a row would attend to itself alone.
    let h = numbers(&[nodes, width], 0, 0.5);
    let c = numbers(&[nodes, width], COTANGENT, 1.0);
    let norm = ContraConfig::new(0.5).build(width);
    Box::new(move |look| {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &norm, 0);
        let h = tape.var(&h);
        let y = norm.forward(&pass, h);
        differentiate(y, &[&[h][..], pass.vars()].concat(), &c, look);
    })
}

/// Attention of queries, keys and values with the heads behind the positions.
type Attend = for<'t> fn([Var<'t, f32>; 3]) -> Var<'t, f32>;

/// A transformer block with the norms before attention and feed-forward.
///
/// The key has no bias: it would add the same to all scores of a row, which the softmax does not see.
struct Block {
    norm: LayerNorm<f32>,
    query: Linear<f32>,
    key: Linear<f32>,
    value: Linear<f32>,
    out: Linear<f32>,
    feed_norm: LayerNorm<f32>,
    up: Linear<f32>,
    down: Linear<f32>,
}
emmy::module!(Block for f32: norm, query, key, value, out, feed_norm, up, down);

impl Block {
    const HEADS: isize = 8;

    fn new(width: usize, hidden: usize) -> Self {
        let linear = |input, out, bias| Linear::new(input, out, bias, &mut init::rng(0));
        Self {
            norm: LayerNorm::new(width),
            query: linear(width, width, true),
            key: linear(width, width, false),
            value: linear(width, width, true),
            out: linear(width, width, true),
            feed_norm: LayerNorm::new(width),
            up: linear(width, hidden, true),
            down: linear(hidden, width, true),
        }
    }

    /// Attention of queries, keys and values `[batch, positions, heads, width per head]`, composed.
    fn attend(qkv: [Var<'_, f32>; 3]) -> Var<'_, f32> {
        let [q, k, v] = qkv.map(|z| z.transpose(1, 2));
        attend(q, k, v).transpose(1, 2)
    }

    /// The same as one operation.
    fn attend_fused([q, k, v]: [Var<'_, f32>; 3]) -> Var<'_, f32> {
        let width = q.shape()[3];
        DenseAttention::new(width, Mask::none()).attend(Qkv::new(q, k, v))
    }

    /// x ← x + attention(LN x), x ← x + W₂ gelu(W₁ LN x), for x `[batch, positions, width]`.
    fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, f32>,
        x: Var<'t, f32>,
        attend: Attend,
    ) -> Var<'t, f32> {
        let shape = x.shape();
        let split = [shape[0] as isize, shape[1] as isize, Self::HEADS, -1];
        let z = self.norm.forward(pass, x);
        let qkv = [&self.query, &self.key, &self.value]
            .map(|layer| layer.forward(pass, z).reshape(&split));
        let heads = attend(qkv).reshape(&shape);
        let x = x + self.out.forward(pass, heads);
        let z = self.up.forward(pass, self.feed_norm.forward(pass, x));
        x + self.down.forward(pass, z.gelu())
    }
}

/// A block of width 512 with 8 heads and 2048 hidden neurons, on 8 sequences of 256 positions: forward, and
/// the gradients of the input and of all parameters.
fn block(attend: Attend) -> Step {
    let shape = [8, 256, 512];
    let (x, c) = (numbers(&shape, 0, 1.0), numbers(&shape, COTANGENT, 1.0));
    let mut model = Block::new(512, 2048);
    start(&mut model);
    Box::new(move |look| {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &model, 0);
        let x = tape.var(&x);
        let y = model.forward(&pass, x, attend);
        differentiate(y, &[&[x][..], pass.vars()].concat(), &c, look);
    })
}

/// A training step of a perceptron 784-512-512-10 with ReLU on 256 samples: cross-entropy and Adam. Its
/// result is the loss.
fn mlp() -> Step {
    let x = numbers(&[256, 784], 0, 1.0);
    let labels: Vec<usize> = (0..256).map(|i| 7 * i % 10).collect();
    let widths = [784, 512, 512, 10];
    let mut model = Mlp::new(&widths, Activation::Relu, true, &mut init::rng(0));
    start(&mut model);
    let mut adam = Optimizer::new(Algorithm::ADAM);
    Box::new(move |look| {
        let loss = train::step(&mut model, &mut adam, 1e-3, 0, |model, pass| {
            let y = model.forward(pass, pass.tape().constant(&x));
            y.cross_entropy(&labels, None)
        });
        look(&scalar(loss.expect("a finite step") as f32));
    })
}

/// 333 times x ← max(x ⊙ a + b, 0) on 8 × 8 numbers, 999 operations: forward, and the gradient of the first
/// x.
fn chain() -> Step {
    let shape = [8, 8];
    let (x, c) = (numbers(&shape, 0, 1.0), numbers(&shape, COTANGENT, 1.0));
    // Factors near 1, so that neither values nor gradients vanish.
    let a = numbers(&shape, 1, 0.01).mapv(|a| 1.0 + a).into_shared();
    let b = numbers(&shape, 2, 0.1);
    Box::new(move |look| {
        let tape = Tape::new();
        let (a, b) = (tape.constant(&a), tape.constant(&b));
        let x = tape.var(&x);
        let y = (0..333).fold(x, |x, _| (x * a + b).relu());
        differentiate(y, &[x], &c, look);
    })
}
