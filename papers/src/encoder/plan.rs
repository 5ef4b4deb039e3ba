//! The cells of the table and the figures.

use crate::encoder::cell::Cell;
use crate::encoder::pretrained::Pretrained;
use crate::encoder::sentences::Task;
use crate::support::args::typed;
use crate::support::paper;
use crate::support::transformers::{Arguments, Normaliser, Place, Recipe, Variant};

pub type Plan = paper::Plan<Cell>;

/// The depths of Table 6 here; the paper's BERT has 12 blocks.
const DEPTHS: [usize; 2] = [12, 24];

/// The rows of Table 6.
const ROWS: [Option<Place>; 3] = [
    None,
    Some(Place::BeforeResidual),
    Some(Place::AfterResidual),
];

/// Table 6: CoLA and RTE, the tasks of GLUE that ours resemble; 12 blocks.
const TABLE_6: [[&str; 3]; 2] = [["55.28", "59.57", "58.83"], ["68.59", "68.95", "70.76"]];

/// The largest s among which the paper chooses.
const SCALE: f64 = 0.2;

/// The width of BERT-base.
const WIDTH: usize = 768;

/// The weight decay of a cell.
const WEIGHT_DECAY: f64 = 0.01;

/// The choice of the user: everything, or a part of it.
pub struct Choice {
    pub seeds: Vec<u64>,
    pub tasks: Vec<Task>,
    pub examples: usize,
    pub weights: Option<Pretrained>,
    pub arguments: Arguments,
}

impl Choice {
    fn entry(
        &self,
        task: Task,
        depth: usize,
        variant: Variant,
        names: (String, String),
        paper: Option<&str>,
    ) -> Option<paper::Entry<Cell>> {
        let recipe = Recipe::small(depth, variant, WIDTH, WEIGHT_DECAY);
        let cell = |recipe| Cell {
            task,
            examples: self.examples,
            recipe,
            weights: self.weights.clone(),
        };
        self.arguments
            .entry(names, paper, recipe, &self.seeds, cell)
    }

    /// The tasks that are named, else both.
    pub fn tasks(&self) -> Vec<Task> {
        match &self.tasks[..] {
            [] => vec![Task::Entailment, Task::Acceptability],
            named => named.to_vec(),
        }
    }

    /// The variants of the table; those named, if some are.
    fn variants(&self) -> Vec<Variant> {
        let of = |place: Option<Place>| match place {
            None => Variant::NONE,
            Some(place) => Variant::new(Normaliser::Contra, place, SCALE),
        };
        match self.arguments.names_a_variant() {
            true => self.arguments.variants_or(Place::AfterResidual, SCALE),
            false => ROWS.map(of).to_vec(),
        }
    }

    pub fn table(&self) -> Plan {
        let mut entries = Vec::new();
        for variant in self.variants() {
            let row = ROWS.iter().position(|place| *place == variant.place);
            let row = row.filter(|_| variant.is_printed(SCALE));
            for task in self.tasks() {
                for depth in self.arguments.depths_or(&DEPTHS) {
                    let of_task = TABLE_6[usize::from(task == Task::Entailment)];
                    let paper = row.filter(|_| depth == 12).map(|row| of_task[row]);
                    let column = format!("{} L={depth}", typed(&task));
                    let names = (variant.name(), column);
                    entries.extend(self.entry(task, depth, variant, names, paper));
                }
            }
        }
        Plan {
            title: "Table 6: Matthews' correlation (%) of acceptability, beside CoLA; test accuracy (%) of entailment, beside RTE".into(),
            entries,
        }
    }

    fn by_layer(&self, title: &str, depths: &[usize], tasks: &[Task]) -> Plan {
        let mut entries = Vec::new();
        for &task in tasks {
            for depth in self.arguments.depths_or(depths) {
                for variant in self.variants() {
                    let row = match tasks.len() {
                        1 => format!("L={depth}"),
                        _ => format!("{} L={depth}", typed(&task)),
                    };
                    let names = (row, variant.name());
                    entries.extend(self.entry(task, depth, variant, names, None));
                }
            }
        }
        Plan {
            title: title.into(),
            entries,
        }
    }

    pub fn figure(&self, number: u32) -> Plan {
        let tasks = &self.tasks()[..1];
        match number {
            2 => self.by_layer("Figure 2: measures by layer, score (%)", &[12], tasks),
            _ => self.by_layer("Figure 3: score (%) by depth", &DEPTHS, tasks),
        }
    }

    /// Without arguments: two cells of Table 6 in which ContraNorm decides whether the model learns.
    pub fn demonstration(&self) -> Plan {
        let tasks = match &self.tasks[..] {
            [] => &[Task::Acceptability],
            named => &named[..1],
        };
        let title = match tasks[0] {
            Task::Acceptability => "24 blocks: Matthews' correlation (%) of acceptability",
            Task::Entailment => "24 blocks: test accuracy (%) of entailment",
        };
        let mut plan = self.by_layer(title, &[24], tasks);
        let before = Some(Place::BeforeResidual);
        plan.entries
            .retain(|entry| entry.cells[0].recipe.variant.place != before);
        plan
    }

    /// The cells that the command line names; twelve blocks if it names no depth.
    pub fn cells(&self) -> Plan {
        let tasks = self.tasks();
        let variants = self.arguments.variants_or(Place::AfterResidual, SCALE);
        let mut entries = Vec::new();
        for &task in &tasks {
            for &variant in &variants {
                for depth in self.arguments.depths_or(&[12]) {
                    let names = (
                        format!("{} {}", typed(&task), variant.name()),
                        format!("L={depth}"),
                    );
                    entries.extend(self.entry(task, depth, variant, names, None));
                }
            }
        }
        Plan {
            title: "Score (%)".into(),
            entries,
        }
    }
}
