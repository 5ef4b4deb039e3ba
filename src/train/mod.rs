//! Training: a task in batches, a record of every step and every epoch, the best model, early stopping,
//! checkpoints.
//!
//! A [`Trainer`] trains a model on a [`Task`], which gives batches, a loss and an evaluation. In this example
//! the task is to predict the classes of the nodes of a graph:
//!
//! ```
//! use emmy::data;
//! use emmy::nn::{GraphNet, GraphNetConfig};
//! use emmy::train::{BestBy, NodeClassification, TrainConfig, Trainer};
//!
//! let karate = data::karate();
//! let net = GraphNetConfig { dropout: 0.0, ..GraphNetConfig::gcn(karate.feature_count(), karate.classes) };
//! let (x, neighbours) = (karate.raw_features(), net.neighbourhood(&karate.graph));
//!
//! let task = NodeClassification::new(&karate.labels, karate.split(0)?, |net: &GraphNet<f32>, pass| {
//!     net.forward(pass, pass.tape().sparse(&x), &neighbours)
//! })?;
//! let config = TrainConfig { best_by: BestBy::LOSS, ..TrainConfig::default() };
//! let mut trainer = Trainer::new(GraphNet::new(net, 0)?, config)?;
//! trainer.fit(&task, |_, _| Ok(()))?;
//!
//! let best = trainer.history().best().expect("it ran");
//! assert!(best.metrics["test_acc"] > 0.9, "{best:?}");
//! # Ok::<(), emmy::Error>(())
//! ```
//!
//! An epoch is one step per batch, and an evaluation after the last. [`History`] has a [`StepRecord`] per
//! step, about the point where the step begins, and a [`Record`] per epoch, about the point where it ends. An
//! [`Observer`] sees more ([`Trainer::fit_observed`]): every point (θ, ∂L/∂θ) before the step. [`LawMonitor`]
//! checks the conservation laws of the model there; [`Recorder`] samples δ, balance, gradients and change.
//!
//! A loop written by hand takes its steps with [`step()`].

mod batches;
mod classify;
mod config;
mod history;
mod law_monitor;
pub mod metrics;
mod next_symbol;
mod nodes;
mod observer;
mod recorder;
mod state;
mod step;
mod task;
mod trainer;

pub use batches::Batches;
pub use classify::Classify;
pub use config::{BestBy, TrainConfig};
pub use history::{History, Record, StepRecord};
pub use law_monitor::LawMonitor;
pub use next_symbol::NextSymbol;
pub use nodes::NodeClassification;
pub use observer::{EachEpoch, Observer, Point, each_epoch};
pub use recorder::{Norms, Recorder, Recording, Sample};
pub use state::{TrainState, Worst};
pub use step::step;
pub use task::{Loss, Metrics, Task};
pub use trainer::Trainer;
