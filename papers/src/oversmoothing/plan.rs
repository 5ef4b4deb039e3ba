//! The cells of Table 3, and those that the command line names.

use crate::oversmoothing::cell::{Cell, Method, Split};
use crate::oversmoothing::numbers;
use crate::support::args::Float;
use crate::support::paper;

/// One number of a table, and the table.
pub type Entry = paper::Entry<Cell>;
pub type Plan = paper::Plan<Cell>;

/// The choice of the user: everything, or a part of it.
#[derive(Debug, Clone)]
pub struct Choice {
    pub seeds: Vec<u64>,
    pub datasets: Vec<String>,
    pub methods: Vec<Method>,
    pub layers: Vec<usize>,
    pub split: Split,
    pub raw_features: bool,
    /// The scales to choose among; if empty, those of the paper.
    pub scales: Vec<f64>,
    pub epochs: Option<usize>,
    pub hidden: Option<usize>,
    pub dropout: Option<f64>,
    pub lr: Option<f64>,
    pub weight_decay: Option<f64>,
    pub float: Option<Float>,
}

fn or<T: Clone>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default } else { given }.to_vec()
}

impl Choice {
    /// The runs behind one number of the table: all scales, each once per seed.
    pub fn cells(&self, dataset: &str, method: Method, layers: usize, epochs: usize) -> Vec<Cell> {
        let has_scale = !matches!(method, Method::None | Method::Layer);
        let scales = match has_scale {
            true => or(&self.scales, &method.scales(layers)),
            false => method.scales(layers),
        };
        let of = |scale: f64, seed: u64| Cell {
            dataset: dataset.to_owned(),
            split: self.split,
            raw_features: self.raw_features,
            method,
            scale,
            layers,
            width: self.hidden.unwrap_or(32),
            dropout: self.dropout.unwrap_or(0.6),
            lr: self.lr.unwrap_or(0.005),
            weight_decay: self.weight_decay.unwrap_or(5e-4),
            epochs: self.epochs.unwrap_or(epochs),
            seed,
            float: self.float.unwrap_or(Float::F32),
        };
        let seeds = self.seeds.iter();
        seeds
            .flat_map(|&seed| scales.iter().map(move |&scale| of(scale, seed)))
            .collect()
    }

    fn entry(&self, dataset: &str, method: Method, layers: usize, epochs: usize) -> Entry {
        let known = numbers::TABLE_3.iter().find(|(set, _)| *set == dataset);
        // The paper has one row of PairNorm and does not say of which mode, or whether a LayerNorm follows.
        let printed = match method {
            Method::PairSi | Method::PairScs | Method::PairLayer => Method::Pair,
            other => other,
        };
        let row = known.and_then(|(_, rows)| rows.iter().find(|(of, _)| *of == printed));
        let column = numbers::LAYERS.iter().position(|&l| l == layers);
        // The paper's numbers are for the test nodes of its own split.
        let paper = row
            .zip(column)
            .map(|((_, numbers), k)| numbers[k].to_owned());
        let split = match self.split {
            Split::Published => "",
            Split::Public => ", public split",
        };
        let features = match self.raw_features {
            true => ", raw features",
            false => "",
        };
        Entry {
            row: format!("{dataset} {}{split}{features}", method.printed()),
            column: format!("L={layers}"),
            paper: paper.filter(|_| self.split == Split::Published),
            cells: self.cells(dataset, method, layers, epochs),
        }
    }

    fn grid(
        &self,
        datasets: &[String],
        methods: &[Method],
        layers: &[usize],
        epochs: usize,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        for dataset in datasets {
            for &method in methods {
                for &layers in layers {
                    entries.push(self.entry(dataset, method, layers, epochs));
                }
            }
        }
        entries
    }

    /// The methods of Table 3, with DGN as a row of its own.
    const METHODS: [Method; 5] = [
        Method::None,
        Method::Layer,
        Method::Pair,
        Method::Contra,
        Method::Dgn,
    ];

    pub fn table_3(&self) -> Plan {
        let sets: Vec<_> = numbers::TABLE_3.map(|(set, _)| set.to_owned()).into();
        Plan {
            title: "Table 3: test accuracy (%) of a graph convolutional network by depth".into(),
            entries: self.grid(
                &or(&self.datasets, &sets),
                &or(&self.methods, &Self::METHODS),
                &or(&self.layers, &numbers::LAYERS),
                200,
            ),
        }
    }

    /// The quick demonstration, on a generated set that needs no data files.
    pub fn demonstration(&self) -> Plan {
        let choice = Self {
            scales: vec![1.0],
            ..self.clone()
        };
        let methods = [Method::None, Method::Layer, Method::Pair, Method::Contra];
        let set = ["cora-like".to_owned()];
        Plan {
            title: "Eight layers of graph convolution on cora-like: test accuracy (%)".into(),
            entries: choice.grid(&set, &methods, &[8], 60),
        }
    }

    /// The cells that the command line names. Defaults: Cora-like, all methods of the table, 8 layers.
    pub fn named(&self) -> Plan {
        let set = ["cora-like".to_owned()];
        Plan {
            title: "Test accuracy (%)".into(),
            entries: self.grid(
                &or(&self.datasets, &set),
                &or(&self.methods, &Self::METHODS),
                &or(&self.layers, &[8]),
                200,
            ),
        }
    }
}
