//! The figures.

use super::{Choice, Plan, SCHEMES};
use crate::cell::{Cell, Rule};
use emmy::nn::Omega;

impl Choice {
    /// The cells of a figure, an entry a curve, bar or panel.
    pub fn figure(&self, number: u32) -> Plan {
        let mut entries = Vec::new();
        let mut add = |row: String, column: String, cell: Cell| {
            entries.extend(self.entry(row, column, None, &cell));
        };
        let first = self.seeds.first().copied().unwrap_or(0);
        let recorded = |cell: Cell, every| Cell {
            record_every: Some(every),
            seed: first,
            ..cell
        };
        let gat = |layers, init: &str, rule, lr| Cell {
            lr,
            ..self.cell("cora", layers, init, rule)
        };
        match number {
            2 => {
                for rule in [Rule::Sgd, Rule::Adam] {
                    // Adam's loss is below the threshold after thirty epochs; δ matters after that too.
                    let cell = Cell {
                        loss_threshold: None,
                        ..recorded(gat(3, "xavier", rule, 0.1), 25)
                    };
                    add("δ, L=3".into(), format!("{rule:?}"), cell);
                }
                for (init, name) in [SCHEMES[0], SCHEMES[3]] {
                    let cell = recorded(gat(10, init, Rule::Sgd, 0.1), 25);
                    add("c, L=10".into(), name.into(), cell);
                }
            }
            3..=5 => {
                let layers = if number == 3 { 5 } else { 10 };
                for (init, name) in SCHEMES {
                    let cell = recorded(gat(layers, init, Rule::Sgd, 0.1), 25);
                    add(format!("L={layers}"), name.into(), cell);
                }
            }
            6 => {
                for (init, name) in SCHEMES {
                    for layers in [2, 5, 10, 20, 40] {
                        let cell = self.cell("cora", layers, init, Rule::Sgd);
                        add(format!("L={layers}"), name.into(), cell);
                    }
                    for width in [128, 256, 512] {
                        let cell = Cell {
                            width,
                            ..self.cell("cora", 10, init, Rule::Sgd)
                        };
                        add(format!("L=10 w={width}"), name.into(), cell);
                    }
                }
            }
            7 => {
                for dataset in ["cora", "citeseer", "pubmed"] {
                    for (init, name) in [SCHEMES[0], SCHEMES[2], SCHEMES[3]] {
                        for layers in [2, 5, 10, 20] {
                            let cell = self.cell(dataset, layers, init, Rule::Adam);
                            add(format!("{dataset} L={layers}"), name.into(), cell);
                        }
                    }
                }
            }
            8 | 11 => {
                // The learning rates of section 7.
                let rates = [(5, 0.1), (10, 0.05), (20, 0.01)];
                for (layers, lr) in rates.into_iter().skip(usize::from(number == 11)) {
                    for (init, name) in SCHEMES {
                        let cell = Cell {
                            seed: first,
                            ..gat(layers, init, Rule::Sgd, lr)
                        };
                        add(format!("L={layers}"), name.into(), cell);
                    }
                }
            }
            9 | 10 => {
                let omega = [
                    ("xavier", "Xavier"),
                    ("bal-x", "Xavier+Bal"),
                    ("ll-ortho", "LLortho"),
                    ("bal-o", "LLortho+Bal"),
                ];
                let identities = [
                    ("identity", "Identity"),
                    ("identity-bal", "Identity+Bal"),
                    ("ll-identity", "LLidentity"),
                    ("ll-identity-bal", "LLidentity+Bal"),
                ];
                let further = if number == 9 { &identities[..] } else { &[] };
                for (init, name) in omega.iter().chain(further) {
                    for layers in [2, 5, 10, 20, 40, 64, 80] {
                        let base = self.cell("cora", layers, init, Rule::Sgd);
                        let cell = match number {
                            9 => base,
                            _ => Cell {
                                omega: Some(Omega::Channel),
                                ..base
                            },
                        };
                        add(format!("L={layers}"), (*name).into(), cell);
                    }
                }
            }
            12 => {
                for (layers, lr) in [(5, 0.005), (10, 0.0001)] {
                    for (init, name) in SCHEMES {
                        let cell = recorded(gat(layers, init, Rule::Adam, lr), 25);
                        add(format!("L={layers}"), name.into(), cell);
                    }
                }
            }
            _ => unreachable!("the arguments name only figures there are"),
        }
        if matches!(number, 2..=5 | 8 | 11 | 12) {
            // One run shows the dynamics; means of curves would blur them.
            for entry in &mut entries {
                entry.cells.truncate(1);
            }
        }
        Plan {
            title: format!("Figure {number}"),
            entries,
        }
    }
}
