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

mod config;
mod history;
pub mod metrics;
mod progress;
mod trainer;

pub use config::{Select, TrainConfig};
pub use history::{History, Record};
pub use progress::Progress;
pub use trainer::{Task, Trainer};
