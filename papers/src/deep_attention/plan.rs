//! The cells of the tables and figures.
//!
//! Where paper and published code give no setting, a comment states our choice.

use crate::deep_attention::cell::{Cell, Model, Normaliser, ending};
use crate::deep_attention::net::Place;
use crate::deep_attention::numbers::{self, Variant};
use crate::deep_attention::trees;
use crate::support::args::{Float, typed};
use crate::support::paper;

/// One number of a table or a figure, and the table or the figure.
pub type Entry = paper::Entry<Cell>;
pub type Plan = paper::Plan<Cell>;

/// The depths among which Tables 1 and 2 choose by validation accuracy.
const CHOSEN_FROM: [usize; 6] = [2, 3, 5, 8, 11, 15];

/// The depths of Figures 4 and 6.
const DEPTHS: [usize; 7] = [2, 5, 10, 15, 20, 25, 30];

/// The depths of Figure 3; the text names 30.
const CONVERGING: [usize; 4] = [2, 10, 20, 30];

/// The variants of Figure 5.
const OF_TREES: [Variant; 9] = [
    (Model::Gcn, Normaliser::None),
    (Model::Gcn, Normaliser::Pair),
    (Model::Gin, Normaliser::None),
    (Model::Gin, Normaliser::Pair),
    (Model::Ggnn, Normaliser::None),
    (Model::Ggnn, Normaliser::Pair),
    (Model::Gat, Normaliser::None),
    (Model::Gat, Normaliser::Pair),
    (Model::Gat, Normaliser::Lipschitz),
];

/// The choice of the user: everything, or a part of it.
#[derive(Debug, Clone)]
pub struct Choice {
    pub seeds: Vec<u64>,
    pub datasets: Vec<String>,
    pub models: Vec<Model>,
    pub norms: Vec<Normaliser>,
    pub layers: Vec<usize>,
    pub missing: Vec<f64>,
    /// Where cells that the command line names have residuals, if they have some.
    pub residual: Option<Place>,
    pub settings: Settings,
}

/// Settings in place of those of a part; `None` leaves them as they are.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub epochs: Option<usize>,
    pub lr: Option<f64>,
    pub heads: Option<usize>,
    pub width: Option<usize>,
    pub dropout: Option<f64>,
    pub attention_dropout: Option<f64>,
    pub weight_decay: Option<f64>,
    pub plateau: Option<bool>,
    pub normalized: bool,
    pub published_start: bool,
    pub trees: Option<usize>,
    pub float: Option<Float>,
}

impl Settings {
    fn apply(&self, cell: Cell) -> Cell {
        Cell {
            epochs: self.epochs.unwrap_or(cell.epochs),
            lr: self.lr.unwrap_or(cell.lr),
            heads: self.heads.unwrap_or(cell.heads),
            width: self.width.unwrap_or(cell.width),
            dropout: self.dropout.unwrap_or(cell.dropout),
            attention_dropout: self.attention_dropout.unwrap_or(cell.attention_dropout),
            weight_decay: self.weight_decay.unwrap_or(cell.weight_decay),
            plateau: self.plateau.unwrap_or(cell.plateau),
            normalized: self.normalized,
            published_start: self.published_start,
            trees: cell.trees.map(|count| self.trees.unwrap_or(count)),
            float: self.float.unwrap_or(cell.float),
            ..cell
        }
    }

    /// The settings given, for titles.
    pub fn told(&self) -> String {
        let mut out = String::new();
        let mut tell = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                out += &format!(", {name} {value}");
            }
        };
        tell("epochs", self.epochs.map(|n| n.to_string()));
        tell("η", self.lr.map(|x| x.to_string()));
        tell("heads", self.heads.map(|n| n.to_string()));
        tell("width", self.width.map(|n| n.to_string()));
        tell("dropout", self.dropout.map(|x| x.to_string()));
        tell(
            "attention dropout",
            self.attention_dropout.map(|x| x.to_string()),
        );
        tell("weight decay", self.weight_decay.map(|x| x.to_string()));
        let rate = |falls| if falls { "falling" } else { "constant" }.to_owned();
        tell("rate", self.plateau.map(rate));
        let rows = self.normalized.then(|| "rows that sum to 1".to_owned());
        tell("features with", rows);
        let start = self.published_start.then(|| "as published".to_owned());
        tell("start", start);
        tell("trees", self.trees.map(|n| n.to_string()));
        tell("float", self.float.map(|float| typed(&float)));
        out
    }
}

impl Choice {
    /// A cell with the settings of the part, before those of the user.
    fn base(&self, dataset: &str, (model, norm): Variant, layers: usize) -> Cell {
        let of_trees = trees::depth(dataset).is_some();
        Cell {
            dataset: dataset.to_owned(),
            trees: of_trees.then_some(500),
            missing: 0.0,
            normalized: false,
            published_start: false,
            model,
            norm,
            residual: false,
            place: Place::Last,
            layers,
            width: if of_trees { 32 } else { 64 },
            // One head: with more, the maxima that the published code divides by are read at wrong nodes.
            heads: 1,
            dropout: match (of_trees, model) {
                (true, _) => 0.0,
                (_, Model::Gt) => 0.5,
                _ => 0.6,
            },
            attention_dropout: if of_trees { 0.0 } else { 0.3 },
            lr: 0.005,
            weight_decay: if of_trees { 0.0 } else { 5e-4 },
            // The published rule stops deep networks before they have learnt; `--rate falling` is that rule.
            plateau: false,
            epochs: 200,
            seed: 0,
            float: Float::F32,
            recorded: false,
        }
    }

    fn cell(&self, dataset: &str, variant: Variant, layers: usize) -> Cell {
        self.settings.apply(self.base(dataset, variant, layers))
    }

    /// Whether a cell is chosen.
    fn wants(&self, cell: &Cell) -> bool {
        fn any<T: PartialEq>(given: &[T], value: &T) -> bool {
            given.is_empty() || given.contains(value)
        }
        any(&self.datasets, &cell.dataset)
            && any(&self.models, &cell.model)
            && any(&self.norms, &cell.norm)
            && any(&self.layers, &cell.layers)
            && any(&self.missing, &cell.missing)
    }

    /// The entry of the cells that are chosen, each once per seed; `None` if no cell is chosen.
    fn entry(
        &self,
        row: impl Into<String>,
        column: impl Into<String>,
        paper: Option<&str>,
        cells: impl IntoIterator<Item = Cell>,
    ) -> Option<Entry> {
        let chosen = cells.into_iter().filter(|cell| self.wants(cell));
        let seeded = chosen.flat_map(|cell| {
            let with = move |&seed: &u64| Cell {
                seed,
                ..cell.clone()
            };
            self.seeds.iter().map(with).collect::<Vec<_>>()
        });
        let cells: Vec<Cell> = seeded.collect();
        (!cells.is_empty()).then(|| Entry {
            row: row.into(),
            column: column.into(),
            paper: paper.map(str::to_owned),
            cells,
        })
    }

    /// The cells of a table.
    pub fn table(&self, number: u32) -> Plan {
        match number {
            1 => self.table_1(),
            2 => self.table_2(),
            _ => self.table_3(),
        }
    }

    /// A cell of Tables 1 and 2 in all depths among which they choose.
    fn depths(&self, dataset: &str, variant: Variant, missing: f64) -> Vec<Cell> {
        let of = |layers| Cell {
            missing,
            ..self.cell(dataset, variant, layers)
        };
        match &self.layers[..] {
            [] => CHOSEN_FROM.map(of).to_vec(),
            given => given.iter().copied().map(of).collect(),
        }
    }

    fn table_1(&self) -> Plan {
        let mut entries = Vec::new();
        for (variant, numbers) in numbers::TABLE_1 {
            for ((dataset, missing), paper) in numbers::TABLE_1_COLUMNS.into_iter().zip(numbers) {
                let cells = self.depths(dataset, variant, missing);
                let column = format!("{dataset} {missing} %");
                entries.extend(self.entry(name(variant), column, Some(paper), cells));
            }
        }
        Plan {
            title: "Table 1: test accuracy (%) with this part of the other nodes' features missing; depth chosen on the validation nodes".into(),
            entries,
        }
    }

    /// Table 2 without ogbn-arxiv, which this program does not read.
    fn table_2(&self) -> Plan {
        let mut entries = Vec::new();
        for (variant, numbers) in numbers::TABLE_2 {
            for (dataset, paper) in ["cora", "pubmed"].into_iter().zip(numbers) {
                let cells = self.depths(dataset, variant, 100.0);
                let column = format!("{dataset} 100 %");
                entries.extend(self.entry(name(variant), column, Some(paper), cells));
            }
        }
        Plan {
            title: "Table 2: deep attention and deep convolution, test accuracy (%) with all other nodes' features missing; depth chosen on the validation nodes".into(),
            entries,
        }
    }

    fn table_3(&self) -> Plan {
        let mut entries = Vec::new();
        for ((norm, residual), numbers) in numbers::TABLE_3 {
            for ((dataset, layers), paper) in numbers::TABLE_3_COLUMNS.into_iter().zip(numbers) {
                let cell = Cell {
                    residual,
                    ..self.cell(dataset, (Model::Gat, norm), layers)
                };
                let row = name((Model::Gat, norm)) + &ending(residual, Place::Last);
                let column = format!("{dataset} L={layers}");
                entries.extend(self.entry(row, column, Some(paper), [cell]));
            }
        }
        Plan {
            title: "Table 3: residuals, test accuracy (%)".into(),
            entries,
        }
    }

    /// The cells of a figure.
    pub fn figure(&self, number: u32) -> Plan {
        let entries = match number {
            2 => self.exploding("cora", 100),
            3 => self.converging(),
            // The paper draws PubMed alone.
            4 => self.by_depth(&["pubmed", "cora"], &[Model::Gat], &NORMS[..2], 100.0),
            5 => self.trees(),
            _ => self.by_depth(&["cora", "pubmed"], &[Model::Gat, Model::Gt], &NORMS, 0.0),
        };
        let title = match number {
            2 => "Figure 2: gradients of attention in 20 layers, test accuracy (%)",
            3 => "Figure 3: training accuracy by epoch, test accuracy (%)",
            4 => "Figure 4: all other nodes' features missing, test accuracy (%) by depth",
            5 => "Figure 5: TREES, training accuracy (%)",
            _ => "Figure 6: test accuracy (%) by depth",
        };
        Plan {
            title: title.into(),
            entries,
        }
    }

    /// Figure 2.
    fn exploding(&self, dataset: &str, epochs: usize) -> Vec<Entry> {
        let of = |norm| {
            let variant = (Model::Gat, norm);
            let cell = self.settings.apply(Cell {
                epochs,
                recorded: true,
                ..self.base(dataset, variant, 20)
            });
            let mut entry = self.entry("L=20", name(variant), None, [cell])?;
            // One run per panel.
            entry.cells.truncate(1);
            Some(entry)
        };
        NORMS[..2].iter().filter_map(|&norm| of(norm)).collect()
    }

    fn converging(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for norm in &NORMS[..2] {
            for layers in CONVERGING {
                let variant = (Model::Gat, *norm);
                let cell = Cell {
                    recorded: true,
                    ..self.cell("cora", variant, layers)
                };
                let mut entry = self.entry(format!("L={layers}"), name(variant), None, [cell]);
                entry.iter_mut().for_each(|entry| entry.cells.truncate(1));
                entries.extend(entry);
            }
        }
        entries
    }

    fn by_depth(
        &self,
        datasets: &[&str],
        models: &[Model],
        norms: &[Normaliser],
        missing: f64,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        for dataset in datasets {
            for layers in DEPTHS {
                for &model in models {
                    for &norm in norms {
                        let cell = Cell {
                            missing,
                            ..self.cell(dataset, (model, norm), layers)
                        };
                        let (row, column) = (format!("{dataset} L={layers}"), name((model, norm)));
                        entries.extend(self.entry(row, column, None, [cell]));
                    }
                }
            }
        }
        entries
    }

    /// Figure 5: d + 1 layers for trees of depth d.
    fn trees(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for depth in trees::DEPTHS {
            for variant in OF_TREES {
                let cell = self.cell(&trees::name(depth), variant, depth + 1);
                let mut known = numbers::FIGURE_5_AT_10.iter();
                let paper = known.find(|(of, _)| *of == variant && depth == 10);
                let paper = paper.map(|(_, number)| *number);
                entries.extend(self.entry(format!("d={depth}"), name(variant), paper, [cell]));
            }
        }
        entries
    }

    /// The quick demonstration: Figure 2 on the generated set, which needs no data files.
    pub fn demonstration(&self) -> Plan {
        Plan {
            title: "Twenty layers of graph attention on cora-like, with LipschitzNorm and without: test accuracy (%)".into(),
            entries: self.exploding("cora-like", 60),
        }
    }

    /// The cells that the command line names. Settings that it does not name: Cora-like, GAT with
    /// LipschitzNorm and without, 15 layers, no features missing.
    pub fn cells(&self) -> Plan {
        fn or<T: Clone>(given: &[T], default: &[T]) -> Vec<T> {
            if given.is_empty() { default } else { given }.to_vec()
        }
        let mut entries = Vec::new();
        for dataset in or(&self.datasets, &["cora-like".to_owned()]) {
            for missing in or(&self.missing, &[0.0]) {
                for model in or(&self.models, &[Model::Gat]) {
                    let default = if model.attends() {
                        &NORMS[..2]
                    } else {
                        &NORMS[..1]
                    };
                    for norm in or(&self.norms, default) {
                        for layers in or(&self.layers, &[15]) {
                            let cell = Cell {
                                missing,
                                residual: self.residual.is_some(),
                                place: self.residual.unwrap_or_default(),
                                ..self.cell(&dataset, (model, norm), layers)
                            };
                            let ending = ending(cell.residual, cell.place);
                            let row =
                                format!("{dataset} {missing} % {}{ending}", name((model, norm)));
                            entries.extend(self.entry(row, format!("L={layers}"), None, [cell]));
                        }
                    }
                }
            }
        }
        Plan {
            title: "Test accuracy (%)".into(),
            entries,
        }
    }
}

/// The normalisers of Figure 6, those of Figures 2 to 4 first.
const NORMS: [Normaliser; 4] = [
    Normaliser::None,
    Normaliser::Lipschitz,
    Normaliser::Layer,
    Normaliser::Pair,
];

/// The name of a variant in the paper: GAT-Lip.
fn name((model, norm): Variant) -> String {
    format!("{}{}", model.printed(), norm.printed())
}
