//! Writing a text with a trained model, and checkpoints as beginnings of other work (`--load`).

use crate::char_lm::cli::{Cli, Model, NormOrder};
use crate::char_lm::model::CharModel;
use crate::support::note;
use emmy::data::text::{Symbol, Text};
use emmy::nn::Sampling;
use emmy::train::TrainState;
use emmy::{Error, Real, Result, store};
use std::path::Path;
use std::time::Instant;

/// Stands between the description of a run and the symbols of its model.
const SYMBOLS: &str = "; symbols ";

/// The description of a run with the symbols that its model reads and writes.
pub fn with_symbols(description: String, text: &Text) -> String {
    let symbols: String = text.symbols.iter().collect();
    description + SYMBOLS + &serde_json::to_string(&symbols).expect("a string")
}

/// What a run says of its model in its description.
pub fn of_model(cli: &Cli) -> String {
    let norm = cli.norm.unwrap_or(NormOrder::Pre);
    let (name, heads) = (cli.model_name(), cli.heads());
    let (layers, width) = (cli.layers, cli.width);
    format!("{name} with {layers} layers of width {width}, {heads} heads, norm {norm:?}")
}

/// A checkpoint that is read: its file, its state, the symbols of its model.
pub struct Checkpoint<F: Real> {
    file: String,
    pub state: TrainState<F>,
    symbols: Vec<char>,
}

impl<F: Real> Checkpoint<F> {
    /// # Errors
    /// If the file cannot be read, or is no checkpoint of this program.
    pub fn read(path: &Path) -> Result<Self> {
        let state: TrainState<F> = store::load::<F, _>(path)?;
        let file = path.display().to_string();
        let symbols = state.description.split_once(SYMBOLS);
        let symbols = symbols.and_then(|(_, symbols)| serde_json::from_str::<String>(symbols).ok());
        match symbols {
            Some(symbols) => Ok(Self {
                file,
                state,
                symbols: symbols.chars().collect(),
            }),
            None => {
                let found = format!("one of another program: {}", state.description);
                Err(Error::invalid(file, "a checkpoint of this program", found))
            }
        }
    }

    /// No text, with the symbols of the model.
    pub fn no_text(&self) -> Result<Text> {
        Text::with_symbols(&self.file, self.symbols.clone(), "", "", "")
    }

    /// A text in the symbols of the model.
    ///
    /// # Errors
    /// If a character is not among them; the message has the first.
    pub fn recoded(&self, text: &Text) -> Result<Text> {
        let known = |symbol: &&char| self.symbols.contains(symbol);
        match text.symbols.iter().find(|symbol| !known(symbol)) {
            None => text.recoded(self.symbols.clone()),
            Some(symbol) => {
                let count = self.symbols.len();
                let rule = format!("a text of the {count} symbols that its model has learnt");
                let code = u32::from(*symbol);
                let found = format!("{symbol:?} (U+{code:04X}) in {}", text.source);
                Err(Error::invalid(&self.file, rule, found))
            }
        }
    }

    /// Gives a model the weights of the best evaluation.
    ///
    /// # Errors
    /// If the options describe another model, or there was no evaluation yet.
    pub fn restore(&self, cli: &Cli, model: &mut CharModel<F>) -> Result<()> {
        let run = self.state.description.split(SYMBOLS).next();
        let found = run.unwrap_or_default();
        let described = of_model(cli);
        // Models with the same tensors may compute different functions. The certified one divides its
        // attention by a bound for this many characters.
        let context = format!(" context {},", cli.context);
        let fits = cli.model != Model::Certified || found.contains(&context);
        let same = fits && found.contains(&format!(", {described},"));
        if same && self.state.check_model(model).is_ok() {
            return self.state.restore_best(model);
        }
        let rule = format!(
            "those of a {described} (--model, --layers, --width, --context and others must be those of the run)"
        );
        Err(Error::invalid(
            format!("{}: weights", self.file),
            rule,
            found,
        ))
    }
}

/// Writes a text with the model of a checkpoint, and trains nothing.
pub fn only<F: Real>(cli: &Cli, checkpoint: &Checkpoint<F>) -> Result<()> {
    for (option, is_given) in [
        ("--save", cli.save.is_some()),
        ("--summary", cli.summary),
        ("--watch", cli.watch),
        ("--json", cli.json),
    ] {
        if is_given {
            let rule =
                "--text FILE, --data DIR or --dataset NAME, without which nothing is trained";
            return Err(Error::invalid(option, rule, "--load alone"));
        }
    }
    let text = checkpoint.no_text()?;
    let prompt = cli.prompt(&text)?;
    let mut model = CharModel::new(cli, &text)?;
    checkpoint.restore(cli, &mut model)?;
    if let Some(best) = checkpoint.state.history.best() {
        note(format_args!(
            "{}: validation {:.3} nats per character after {} steps; \
             --text FILE, --data DIR or --dataset NAME would train it further",
            checkpoint.file, best.metrics["val_loss"], best.steps
        ));
    }
    write(cli, &text, &model, &prompt)
}

/// Prints the prompt and a sample that continues it.
pub fn write<F: Real>(
    cli: &Cli,
    text: &Text,
    model: &CharModel<F>,
    prompt: &[Symbol],
) -> Result<()> {
    let how = Sampling {
        temperature: cli.temperature,
        top_k: Some(cli.top_k),
        seed: cli.seed,
    };
    let start: Vec<usize> = prompt.iter().map(|&symbol| symbol.into()).collect();
    let (mut memory, began) = (model.memory(), Instant::now());
    let drawn = how.continuation(&start, cli.sample, model.most(), |symbols, anew| {
        if anew {
            memory = model.memory();
        }
        model.next(symbols, &mut memory)
    });
    let seconds = began.elapsed().as_secs_f64();
    // The symbols of a text are below 2¹⁶.
    let drawn = drawn.iter().map(|&symbol| symbol as Symbol);
    let written: Vec<Symbol> = prompt.iter().copied().chain(drawn).collect();
    cli.tell(format_args!("\n{}\n", text.decode(&written)))?;
    if !cli.json && cli.sample > 0 {
        let pace = cli.sample as f64 / seconds;
        // Beside the text, not in it.
        note(format_args!("{pace:.0} characters per second written"));
    }
    Ok(())
}
