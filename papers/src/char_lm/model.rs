//! The models: a transformer, long short-term memory, or a model with a certified Lipschitz constant.

use crate::certified::{CertifiedConfig, CertifiedEnsemble, CertifiedLanguageModel};
use crate::char_lm::cli::{Cli, Model, NormOrder};
use crate::support::memory;
use emmy::data::text::Text;
use emmy::lipschitz::Lp;
use emmy::nn::{
    Contraction, Dropout, Embedding, Fields, KeyValues, LanguageConfig, LanguageModel, Layer,
    Linear, Lstm, LstmState, Module, Pass, Score, Trace,
};
use emmy::{Real, Result, Tape, Tensor, Var, init};

/// Logits of the next character at each place of sequences.
#[derive(Debug, Clone)]
pub enum CharModel<F: Real> {
    Transformer(Box<LanguageModel<F>>),
    Lstm(Box<LstmModel<F>>),
    Certified(CertifiedEnsemble<F>),
}

/// A vector per character, LSTM layers, a map to characters.
#[derive(Debug, Clone)]
pub struct LstmModel<F: Real> {
    tokens: Embedding<F>,
    lstm: Lstm<F>,
    head: Linear<F>,
    dropout: Dropout,
}
emmy::module!(LstmModel: tokens, lstm, head);

/// The state that a model keeps of the characters that it has read.
pub enum Memory<F: Real> {
    /// Keys and values of each layer.
    Read(Vec<KeyValues<F>>),
    /// h and c of each layer; `None` before the first character.
    State(Vec<[Tensor<F>; 2]>),
    /// The characters themselves.
    Text(Vec<usize>),
}

impl<F: Real> CharModel<F> {
    /// # Errors
    /// If the options do not fit each other, or the training would need more memory than there is.
    pub fn new(cli: &Cli, text: &Text) -> Result<Self> {
        cli.check()?;
        check_memory::<F>(cli, text)?;
        let symbols = text.symbol_count();
        if cli.model == Model::Lstm {
            let rng = &mut init::rng(cli.seed);
            let dropout = Dropout { p: cli.dropout };
            let tokens = Embedding::new(symbols, cli.width, rng);
            let mut lstm = Lstm::new(cli.width, cli.width, cli.layers, rng);
            lstm.dropout = dropout;
            return Ok(Self::Lstm(Box::new(LstmModel {
                tokens,
                lstm,
                head: Linear::new(cli.width, symbols, true, rng),
                dropout,
            })));
        }
        let (context, layers) = (cli.context, cli.layers);
        if cli.model == Model::Certified {
            let config = CertifiedConfig::new(symbols, context, layers, cli.width);
            let config = CertifiedConfig {
                heads: cli.heads(),
                window: cli.window.unwrap_or(config.window),
                dropout: cli.dropout,
                ..config
            };
            let net = CertifiedLanguageModel::new(config, cli.seed)?;
            return Ok(Self::Certified(CertifiedEnsemble::of(vec![net])?));
        }
        let mut config = LanguageConfig::gpt(symbols, context, layers, cli.heads(), cli.width);
        config.block = config.block.with_dropout(cli.dropout);
        config.block.norm_first = cli.norm != Some(NormOrder::Post);
        let attention = &mut config.block.attention;
        attention.score = match cli.model {
            Model::L2 => Score::L2,
            Model::L2Tied | Model::Contractive => Score::L2Tied,
            Model::Transformer | Model::Lstm | Model::Certified => Score::Dot,
        };
        if cli.model == Model::Contractive {
            attention.metric_values = true;
            attention.contraction = Some(Contraction {
                tokens: Some(context),
                ..Contraction::new(1.0, Lp::Inf)
            });
        }
        let net = LanguageModel::new(config, cli.seed)?;
        Ok(Self::Transformer(Box::new(net)))
    }

    /// The logits `[sequences, length, characters]`.
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        sequences: usize,
    ) -> Var<'t, F> {
        match self {
            Self::Transformer(net) => net.forward(pass, symbols, sequences),
            Self::Lstm(net) => net.forward(pass, symbols, sequences, None).0,
            Self::Certified(net) => net.forward(pass, symbols, sequences),
        }
    }

    /// An empty memory.
    pub fn memory(&self) -> Memory<F> {
        match self {
            Self::Transformer(_) => Memory::Read(Vec::new()),
            Self::Lstm(_) => Memory::State(Vec::new()),
            Self::Certified(_) => Memory::Text(Vec::new()),
        }
    }

    /// The most characters that a memory holds; `None` if there is no limit.
    pub fn most(&self) -> Option<usize> {
        match self {
            Self::Transformer(net) => Some(net.config.context),
            Self::Lstm(_) => None,
            Self::Certified(net) => Some(net.config().context),
        }
    }

    /// The logits after the last of the given characters, which follow those in the memory; they are added to
    /// the memory.
    pub fn next(&self, symbols: &[usize], memory: &mut Memory<F>) -> Vec<F> {
        if let (Self::Transformer(net), Memory::Read(cache)) = (self, &mut *memory) {
            return net.next_logits(symbols, cache);
        }
        let tape = Tape::new();
        let pass = Pass::eval(&tape, self);
        let logits = match (self, memory) {
            (Self::Lstm(net), Memory::State(state)) => {
                let before: Vec<_> = (state.iter())
                    .map(|[h, c]| LstmState {
                        hidden: tape.constant(h.clone()),
                        cell: tape.constant(c.clone()),
                    })
                    .collect();
                let before = (!before.is_empty()).then_some(&before[..]);
                let (logits, after) = net.forward(&pass, symbols, 1, before);
                *state = (after.iter())
                    .map(|s| [s.hidden.value(), s.cell.value()])
                    .collect();
                logits
            }
            (Self::Certified(net), Memory::Text(all)) => {
                all.extend(symbols);
                let logits = net.forward(&pass, all, 1);
                logits.slice(1, all.len() - symbols.len()..all.len())
            }
            _ => unreachable!("the memory of another model"),
        };
        let last = logits.slice(1, symbols.len() - 1..symbols.len()).value();
        last.iter().copied().collect()
    }

    /// A pass over one sequence of this length.
    pub fn trace(&self, length: usize) -> Trace {
        Trace::of(self, |pass| self.forward(pass, &vec![0; length], 1))
    }
}

impl<F: Real> LstmModel<F> {
    fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        sequences: usize,
        state: Option<&[LstmState<'t, F>]>,
    ) -> (Var<'t, F>, Vec<LstmState<'t, F>>) {
        pass.call(self, &[], || {
            let x = self.tokens.forward(pass, symbols);
            let width = x.shape()[1];
            let x = x.reshape(&[sequences, symbols.len() / sequences, width]);
            let x = self.dropout.forward(pass, x).var();
            let (y, state) = self.lstm.forward(pass, x, state);
            let y = self.dropout.forward(pass, y).var();
            (self.head.forward(pass, y), state)
        })
    }
}

impl<F: Real> Layer<F> for LstmModel<F> {}

impl<F: Real> Module<F> for CharModel<F> {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
        match self {
            Self::Transformer(net) => net.collect(out),
            Self::Lstm(net) => net.collect(out),
            Self::Certified(net) => net.collect(out),
        }
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
        match self {
            Self::Transformer(net) => net.collect_mut(out),
            Self::Lstm(net) => net.collect_mut(out),
            Self::Certified(net) => net.collect_mut(out),
        }
    }
}

/// Refuses a model whose training needs more memory than the machine has. The need is an estimate: it counts
/// parameters, and the values of each layer for each character of a batch.
fn check_memory<F: Real>(cli: &Cli, text: &Text) -> Result<()> {
    let [layers, width, context, batch, symbols] = [
        cli.layers,
        cli.width,
        cli.context,
        cli.batch,
        text.symbol_count(),
    ]
    .map(|size| size as f64);
    let (matrices, values) = match cli.model {
        Model::Lstm => (8.0, 10.0),
        Model::Certified => (10.0, 20.0),
        _ => (12.0, 18.0),
    };
    let parameters = matrices * layers * width * width + (symbols + context) * width;
    // Six numbers per parameter: value, gradient, two of Adam's, the best value, one temporary.
    let numbers = 6.0 * parameters
        + batch * context * (values * layers * width + 4.0 * symbols)
        + 16_384.0 * layers;
    let records = memory::OF_A_STEP * cli.steps as f64 * (1.0 + layers);
    let what = format!(
        "{parameters:.3e} parameters in {} layers, {} characters per step, {} steps",
        cli.layers,
        batch * context,
        cli.steps
    );
    memory::fits(size_of::<F>() as f64 * numbers + records, &what)
}
