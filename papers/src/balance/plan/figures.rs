//! The figures.

use super::{Choice, Plan, SCHEMES};
use crate::balance::cell::{Cell, Rule};
use crate::layers::Omega;

/// A curve, bar or panel: its row, its column, and the cell behind it.
type Drawn = (String, String, Cell);

/// Depths of Figures 9 and 10.
const DEPTHS: [usize; 7] = [2, 5, 10, 20, 40, 64, 80];

/// The initialisations of Figure 10; Figure 9 has these and the next ones.
const BASES: [(&str, &str); 4] = [
    ("xavier", "Xavier"),
    ("bal-x", "Xavier+Bal"),
    ("ll-ortho", "LLortho"),
    ("bal-o", "LLortho+Bal"),
];
const IDENTITIES: [(&str, &str); 4] = [
    ("identity", "Identity"),
    ("identity-bal", "Identity+Bal"),
    ("ll-identity", "LLidentity"),
    ("ll-identity-bal", "LLidentity+Bal"),
];

impl Choice {
    /// The cells of a figure, one entry per curve, bar or panel.
    pub fn figure(&self, number: u32) -> Plan {
        let drawn = match number {
            2 => self.conservation(),
            3 => self.dynamics(Rule::Sgd, 5, 0.1),
            4 | 5 => self.dynamics(Rule::Sgd, 10, 0.1),
            6 => self.depths_and_widths(),
            7 => self.depths_under_adam(),
            // The learning rates of section 7.
            8 => self.changes(&[(5, 0.1), (10, 0.05), (20, 0.01)]),
            9 => self.bases([BASES, IDENTITIES].as_flattened(), None),
            10 => self.bases(&BASES, Some(Omega::Channel)),
            11 => self.changes(&[(10, 0.05), (20, 0.01)]),
            12 => [(5, 0.005), (10, 0.0001)]
                .map(|(layers, lr)| self.dynamics(Rule::Adam, layers, lr))
                .concat(),
            _ => unreachable!("the arguments name only figures there are"),
        };
        let entries = drawn.into_iter().filter_map(|(row, column, cell)| {
            let mut entry = self.entry(row, column, None, &cell)?;
            if matches!(number, 2..=5 | 8 | 11 | 12) {
                // One run per curve: the mean of several runs would hide the dynamics.
                entry.cells.truncate(1);
            }
            Some(entry)
        });
        Plan {
            title: format!("Figure {number}"),
            entries: entries.collect(),
        }
    }

    fn on_cora(&self, layers: usize, init: &str, rule: Rule, lr: f64) -> Cell {
        Cell {
            lr: self.lr.unwrap_or(lr),
            ..self.cell("cora", layers, init, rule)
        }
    }

    fn recorded(&self, layers: usize, init: &str, rule: Rule, lr: f64) -> Cell {
        Cell {
            record_every: Some(25),
            ..self.on_cora(layers, init, rule, lr)
        }
    }

    fn conservation(&self) -> Vec<Drawn> {
        let mut out = Vec::new();
        for (rule, name) in [(Rule::Sgd, "SGD"), (Rule::Adam, "Adam")] {
            // Adam's loss is below the threshold after thirty epochs, but the figure shows δ after that too.
            let cell = Cell {
                loss_threshold: None,
                ..self.recorded(3, "xavier", rule, 0.1)
            };
            out.push(("δ, L=3".into(), name.into(), cell));
        }
        for (init, name) in [SCHEMES[0], SCHEMES[3]] {
            let cell = self.recorded(10, init, Rule::Sgd, 0.1);
            out.push(("c, L=10".into(), name.into(), cell));
        }
        out
    }

    fn dynamics(&self, rule: Rule, layers: usize, lr: f64) -> Vec<Drawn> {
        let cell = |(init, name): (&str, &str)| {
            let mut cell = self.recorded(layers, init, rule, lr);
            if rule == Rule::Adam {
                // Five layers are learnt in fifty epochs.
                cell.record_every = Some(5);
            }
            (format!("L={layers}"), name.into(), cell)
        };
        SCHEMES.map(cell).into()
    }

    fn depths_and_widths(&self) -> Vec<Drawn> {
        let mut out = Vec::new();
        for (init, name) in SCHEMES {
            for layers in [2, 5, 10, 20, 40] {
                let cell = self.cell("cora", layers, init, Rule::Sgd);
                out.push((format!("L={layers}"), name.into(), cell));
            }
            for width in [128, 256, 512] {
                let cell = Cell {
                    width,
                    ..self.cell("cora", 10, init, Rule::Sgd)
                };
                out.push((format!("L=10 w={width}"), name.into(), cell));
            }
        }
        out
    }

    fn depths_under_adam(&self) -> Vec<Drawn> {
        let mut out = Vec::new();
        for dataset in ["cora", "citeseer", "pubmed"] {
            for (init, name) in [SCHEMES[0], SCHEMES[2], SCHEMES[3]] {
                for layers in [2, 5, 10, 20] {
                    let cell = self.cell(dataset, layers, init, Rule::Adam);
                    out.push((format!("{dataset} L={layers}"), name.into(), cell));
                }
            }
        }
        out
    }

    fn changes(&self, rates: &[(usize, f64)]) -> Vec<Drawn> {
        let mut out = Vec::new();
        for &(layers, lr) in rates {
            for (init, name) in SCHEMES {
                let cell = self.on_cora(layers, init, Rule::Sgd, lr);
                out.push((format!("L={layers}"), name.into(), cell));
            }
        }
        out
    }

    fn bases(&self, bases: &[(&str, &str)], omega: Option<Omega>) -> Vec<Drawn> {
        let mut out = Vec::new();
        for &(init, name) in bases {
            for layers in DEPTHS {
                let cell = Cell {
                    omega,
                    ..self.cell("cora", layers, init, Rule::Sgd)
                };
                out.push((format!("L={layers}"), name.into(), cell));
            }
        }
        out
    }
}
