//! The mean of several trained models (`--mean-of`).

use crate::certified::{CertifiedEnsemble, CertifiedLanguageModel};
use crate::char_lm::cli::Cli;
use crate::char_lm::description;
use crate::char_lm::evaluate::Quality;
use crate::char_lm::model::CharModel;
use crate::char_lm::outcome::Outcome;
use crate::char_lm::written::write;
use emmy::data::text::{Symbol, Text};
use emmy::nn::{Pass, parameter_count};
use emmy::train::{NextSymbol, TrainState};
use emmy::{Error, Real, Result, Var, store};
use std::time::Instant;

/// Evaluates the mean of the models of the best evaluations of some checkpoints.
///
/// # Errors
/// If a checkpoint cannot be read, or is that of a run with other options; if two runs have the same seed.
pub fn evaluate<F: Real, L>(
    cli: &Cli,
    text: &Text,
    task: &NextSymbol<'_, L>,
    prompt: &[Symbol],
) -> Result<()>
where
    L: for<'t> Fn(&CharModel<F>, &Pass<'t, '_, F>, &[usize], usize) -> Var<'t, F>,
{
    let start = Instant::now();
    let (net, steps) = load(cli, text)?;
    let members = net.members().len();
    let mut model = CharModel::Certified(net);
    let quality = Quality::of(cli, text, task, &mut model, |_| ())?;
    let outcome = Outcome {
        summary: true,
        model: cli.model_name(),
        dataset: text.source.clone(),
        parameters: parameter_count(&model),
        members,
        steps,
        best_step: None,
        quality,
        ms_per_step: None,
        seconds: start.elapsed().as_secs_f64(),
        max_delta: None,
        stopped: None,
    };
    outcome.tell(cli, None)?;
    write(cli, text, &model, prompt)
}

/// The mean of the checkpoints, and the steps of all of them.
fn load<F: Real>(cli: &Cli, text: &Text) -> Result<(CertifiedEnsemble<F>, usize)> {
    let expected = description(cli, text);
    let mut members: Vec<CertifiedLanguageModel<F>> = Vec::new();
    let (mut seeds, mut steps) = (Vec::new(), 0);
    for path in &cli.mean_of {
        let differs = |what: &str, expected: String, found: String| {
            Error::invalid(format!("{}: {what}", path.display()), expected, found)
        };
        let state: TrainState<F> = store::load::<F, _>(path)?;
        if state.description != expected {
            let what = "checkpoint of another run";
            return Err(differs(what, expected, state.description));
        }
        if seeds.contains(&state.seed) {
            let found = format!("{}, as of a member before it", state.seed);
            return Err(differs("seed", "another for each member".to_owned(), found));
        }
        let mut member = CharModel::new(cli, text)?;
        let restored = state.restore_best(&mut member);
        let wanted = || "those of such a run".to_owned();
        restored.map_err(|e| differs("weights", wanted(), e.to_string()))?;
        let CharModel::Certified(member) = member else {
            unreachable!("the option is refused for other models");
        };
        if let Some(best) = state.history.best() {
            cli.tell(format_args!(
                "{}: seed {}, validation {:.3} nats per character after {} of {} steps",
                path.display(),
                state.seed,
                best.metrics["val_loss"],
                best.steps,
                state.steps()
            ))?;
        }
        seeds.push(state.seed);
        steps += state.steps();
        members.extend(member.into_members());
    }
    Ok((CertifiedEnsemble::of(members)?, steps))
}
