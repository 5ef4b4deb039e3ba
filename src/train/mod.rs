//! Training on one whole graph at a time: masks, best-validation model, early stopping, a record of every epoch.
//!
//! ```
//! use emmy::data;
//! use emmy::nn::{GraphNet, GraphNetConfig};
//! use emmy::train::{Select, Task, TrainConfig, Trainer};
//!
//! let karate = data::karate();
//! let config = GraphNetConfig { dropout: 0.0, ..GraphNetConfig::gcn(karate.feature_count(), karate.classes) };
//! let (x, adjacency) = (karate.raw_features(), config.adjacency(&karate.graph));
//!
//! let net = GraphNet::<f32>::new(config, 0)?;
//! let mut trainer = Trainer::new(net, TrainConfig { select: Select::Loss, ..TrainConfig::default() })?;
//! let task = Task { labels: &karate.labels, split: karate.split(0)? };
//! trainer.fit(&task, |net, pass| net.forward(pass, pass.tape().sparse(&x), &adjacency), |_, _| Ok(()))?;
//!
//! let best = trainer.history().best().expect("it ran");
//! assert!(best.test_acc > 0.9, "{best:?}");
//! # Ok::<(), emmy::Error>(())
//! ```
//!
//! Who wants to see more than the records gives an [`Observer`] to [`Trainer::fit_observed`]: it is shown every point (θ, ∂L/∂θ) before the
//! step. [`DeltaWatch`] holds it against the conservation laws of the model; [`Recorder`] samples δ, balance, gradients and change.

mod change;
mod config;
mod history;
pub mod metrics;
mod observer;
mod progress;
mod recorder;
mod task;
mod trainer;
mod watch;

pub use change::{Change, Spread, change};
pub use config::{Select, TrainConfig};
pub use history::{History, Record};
pub use observer::{EachEpoch, Observer, Point, each_epoch};
pub use progress::Progress;
pub use recorder::{Norms, Recorder, Recording, Sample};
pub use task::Task;
pub use trainer::Trainer;
pub use watch::{DeltaWatch, Worst};
