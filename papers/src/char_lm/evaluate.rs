//! The quality of a trained model, measured on the whole text.

use crate::char_lm::certify::Certificate;
use crate::char_lm::cli::Cli;
use crate::char_lm::model::CharModel;
use emmy::data::text::{Symbol, Text};
use emmy::ndarray::ArrayView1;
use emmy::nn::Pass;
use emmy::train::NextSymbol;
use emmy::{Real, Result, Var};
use serde::Serialize;

/// Losses are in nats per character; all are null if the training diverged.
#[derive(Serialize, Debug, Default)]
pub struct Quality {
    /// Over as many windows as the validation text has.
    pub train_loss: Option<f64>,
    /// Over the whole validation text.
    pub val_loss: Option<f64>,
    /// Over the whole test text; null if there is none.
    pub test_loss: Option<f64>,
    /// The share of the characters of the whole text that are predicted correctly.
    pub val_accuracy: Option<f64>,
    pub test_accuracy: Option<f64>,
    /// The constants of the certified model.
    #[serde(flatten)]
    pub certificate: Option<Certificate>,
}

impl Quality {
    /// Measures a model; the certified model is tightened. `say` shows the present step to the user.
    ///
    /// # Errors
    /// If a weight is not a finite number.
    pub fn of<F: Real, L>(
        cli: &Cli,
        text: &Text,
        task: &NextSymbol<'_, L>,
        model: &mut CharModel<F>,
        say: impl Fn(&'static str),
    ) -> Result<Self>
    where
        L: for<'t> Fn(&CharModel<F>, &Pass<'t, '_, F>, &[usize], usize) -> Var<'t, F>,
    {
        say("evaluating on the whole text");
        let [on_validation, on_test] = [&text.validation, &text.test]
            .map(|part| Predictions::of(task, model, part, cli.stride()));
        let certificate = match (&mut *model, &on_validation) {
            (CharModel::Certified(net), Some(predicted)) => {
                say("certifying");
                net.tighten()?;
                Some(Certificate::of(net, text, &predicted.margins)?)
            }
            _ => None,
        };
        let windows = text.validation.len().div_ceil(cli.context);
        Ok(Self {
            train_loss: Some(task.mean_loss(model, &text.train, windows)),
            val_loss: on_validation.as_ref().map(|p| p.loss),
            test_loss: on_test.as_ref().map(|p| p.loss),
            val_accuracy: on_validation.map(|p| p.accuracy),
            test_accuracy: on_test.map(|p| p.accuracy),
            certificate,
        })
    }
}

/// Predictions of a part of the text: each character except the first is predicted once.
#[derive(Debug, Clone, Default)]
pub struct Predictions {
    /// Nats per character.
    pub loss: f64,
    /// The share of the characters that have the largest probability.
    pub accuracy: f64,
    /// The largest logit minus the second largest, one number per character, in ascending order.
    pub margins: Vec<f64>,
}

impl Predictions {
    /// None if the part has less than two characters.
    pub fn of<F: Real, L>(
        task: &NextSymbol<'_, L>,
        model: &CharModel<F>,
        part: &[Symbol],
        stride: usize,
    ) -> Option<Self>
    where
        L: for<'t> Fn(&CharModel<F>, &Pass<'t, '_, F>, &[usize], usize) -> Var<'t, F>,
    {
        if part.len() < 2 {
            return None;
        }
        let mut found = Self::default();
        task.predictions(model, part, stride, |logits, next| {
            found.add(logits, usize::from(next));
        });
        let count = found.margins.len() as f64;
        found.loss /= count;
        found.accuracy /= count;
        found.margins.sort_by(f64::total_cmp);
        Some(found)
    }

    /// Adds a prediction to the sums.
    fn add<F: Real>(&mut self, logits: ArrayView1<'_, F>, next: usize) {
        let mut best = [(usize::MAX, f64::NEG_INFINITY); 2];
        for (k, z) in logits.iter().enumerate() {
            let z = z.as_f64();
            if z > best[0].1 {
                best = [(k, z), best[0]];
            } else if z > best[1].1 {
                best[1] = (k, z);
            }
        }
        let [(predicted, most), (_, second)] = best;
        let sum: f64 = logits.iter().map(|z| (z.as_f64() - most).exp()).sum();
        self.loss += sum.ln() - (logits[next].as_f64() - most);
        self.accuracy += f64::from(u8::from(predicted == next));
        self.margins.push(most - second);
    }
}
