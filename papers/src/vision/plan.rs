//! The cells of the table and the figures.

use crate::support::paper;
use crate::support::transformers::{Arguments, Normaliser, Place, Recipe, Variant};
use crate::vision::cell::Cell;

pub type Plan = paper::Plan<Cell>;

/// The depths of Table 2 here; the paper has 12, 16 and 24.
const DEPTHS: [usize; 4] = [4, 8, 12, 24];

/// Table 2, ImageNet100: DeiT-tiny, and with ContraNorm.
const TABLE_2: [(usize, [&str; 2]); 3] = [
    (12, ["76.58", "79.34"]),
    (16, ["75.34", "80.44"]),
    (24, ["76.76", "81.28"]),
];

/// s of the paper for ImageNet100.
const SCALE: f64 = 0.2;

/// The width of DeiT-tiny.
const WIDTH: usize = 192;

/// The weight decay of a cell.
const WEIGHT_DECAY: f64 = 0.05;

/// The choice of the user: everything, or a part of it.
pub struct Choice {
    pub seeds: Vec<u64>,
    pub datasets: Vec<String>,
    pub patch: usize,
    pub arguments: Arguments,
}

impl Choice {
    fn entries(
        &self,
        depths: &[usize],
        variants: &[Variant],
        paper: impl Fn(usize, &Variant) -> Option<&'static str>,
        by_row: bool,
    ) -> Vec<paper::Entry<Cell>> {
        let mut entries = Vec::new();
        for dataset in &self.datasets {
            for &depth in depths {
                for variant in variants {
                    let data = match self.datasets.len() {
                        1 => String::new(),
                        _ => format!("{dataset} "),
                    };
                    let names = match by_row {
                        true => (format!("{data}L={depth}"), variant.name()),
                        false => (format!("{data}{}", variant.name()), format!("L={depth}")),
                    };
                    let cell = |recipe| Cell {
                        dataset: dataset.clone(),
                        patch: self.patch,
                        recipe,
                    };
                    let printed = paper(depth, variant);
                    let recipe = Recipe::small(depth, *variant, WIDTH, WEIGHT_DECAY);
                    let seeds = &self.seeds;
                    entries.extend(self.arguments.entry(names, printed, recipe, seeds, cell));
                }
            }
        }
        entries
    }

    /// The variants that are named, else "none" and ContraNorm in front of every norm; in the table and the
    /// figures also after the self-attention, where the text of the paper puts it.
    fn variants(&self, both: bool) -> Vec<Variant> {
        let mut out = self.arguments.variants_or(Place::BeforeNorms, SCALE);
        if both && !self.arguments.names_a_variant() {
            let behind = Variant::new(Normaliser::Contra, Place::AfterResidual, SCALE);
            out.push(behind);
        }
        out
    }

    pub fn table(&self) -> Plan {
        let paper = |depth: usize, variant: &Variant| {
            let of_depth = TABLE_2.iter().find(|(l, _)| *l == depth)?;
            variant
                .is_printed(SCALE)
                .then_some(of_depth.1[usize::from(variant.place.is_some())])
        };
        let depths = self.arguments.depths_or(&DEPTHS);
        Plan {
            title: "Table 2: test accuracy (%), beside that of DeiT-tiny on ImageNet100".into(),
            entries: self.entries(&depths, &self.variants(true), paper, false),
        }
    }

    pub fn figure(&self, number: u32) -> Plan {
        let (title, default): (_, &[usize]) = match number {
            2 => (
                "Figure 2: measures by layer, test accuracy (%)",
                &DEPTHS[2..3],
            ),
            _ => ("Figure 3: test accuracy (%) by depth", &DEPTHS),
        };
        let depths = self.arguments.depths_or(default);
        Plan {
            title: title.into(),
            entries: self.entries(&depths, &self.variants(true), |_, _| None, true),
        }
    }

    /// Without arguments: Figure 2 of a model of eight blocks.
    pub fn demonstration(&self) -> Plan {
        let mut entries = self.entries(&[8], &self.variants(true), |_, _| None, true);
        for cell in entries.iter_mut().flat_map(|entry| &mut entry.cells) {
            cell.recipe.steps = self.arguments.steps_or(600);
        }
        Plan {
            title: "Eight blocks with ContraNorm and without: test accuracy (%)".into(),
            entries,
        }
    }

    /// The cells that the command line names; twelve blocks if it names no depth.
    pub fn cells(&self) -> Plan {
        let depths = self.arguments.depths_or(&[12]);
        Plan {
            title: "Test accuracy (%)".into(),
            entries: self.entries(&depths, &self.variants(false), |_, _| None, false),
        }
    }
}
