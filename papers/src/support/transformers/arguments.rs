//! The arguments that name recipes.

use super::recipe::{Normaliser, Place, Recipe, Variant};
use crate::support::args::{at_least_zero, probability};
use crate::support::paper::{Entry, Filter};
use clap::Args;
use clap::builder::{RangedU64ValueParser, TypedValueParser};

/// The arguments that choose recipes and change their settings.
#[derive(Args, Debug, Clone)]
pub struct Arguments {
    /// Only these numbers of blocks
    #[arg(long = "depth", alias = "layers", value_name = "L", value_parser = count())]
    pub depths: Vec<usize>,

    /// Only these normalisers
    #[arg(long = "norm", value_name = "NAME")]
    pub norms: Vec<Normaliser>,

    /// Only ContraNorm in these places
    #[arg(long = "place", value_name = "PLACE")]
    pub places: Vec<Place>,

    /// The scale s of ContraNorm
    #[arg(long = "s", value_name = "S", value_parser = at_least_zero)]
    pub scale: Option<f64>,

    /// Width of a token
    #[arg(long, value_name = "WIDTH", value_parser = count())]
    width: Option<usize>,

    /// Heads of attention
    #[arg(long, value_name = "H", value_parser = count())]
    heads: Option<usize>,

    /// Standard deviation of the weights at the start
    #[arg(long, value_name = "STD", value_parser = at_least_zero)]
    std: Option<f64>,

    /// Dropout
    #[arg(long, value_name = "P", value_parser = probability)]
    dropout: Option<f64>,

    /// Steps of training; 0 to measure the model before training
    #[arg(long, value_name = "N")]
    steps: Option<usize>,

    /// Examples per step
    #[arg(long, value_name = "N", value_parser = count())]
    batch: Option<usize>,

    /// Learning rate
    #[arg(long, value_name = "RATE", value_parser = at_least_zero)]
    lr: Option<f64>,

    /// Weight decay of the matrices
    #[arg(long, value_name = "LAMBDA", value_parser = at_least_zero)]
    weight_decay: Option<f64>,

    /// Test only with the first N test examples
    #[arg(long, value_name = "N", value_parser = count())]
    tested: Option<usize>,
}

/// The parser of a number that is at least 1.
fn count() -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(1..=1 << 20)
}

impl Arguments {
    /// Whether the arguments name no recipe. Then a demonstration is run.
    pub fn names_none(&self) -> bool {
        self.depths.is_empty() && self.norms.is_empty() && self.places.is_empty()
    }

    /// Whether the arguments name a normaliser or a place.
    pub fn names_a_variant(&self) -> bool {
        !self.norms.is_empty() || !self.places.is_empty()
    }

    /// The steps given, else `default`.
    pub fn steps_or(&self, default: usize) -> usize {
        self.steps.unwrap_or(default)
    }

    /// A recipe with the settings given in place of its own.
    pub fn apply(&self, recipe: Recipe) -> Recipe {
        let Variant { norm, place, s } = recipe.variant;
        let variant = match (place, s) {
            (Some(place), Some(s)) => Variant::new(norm, place, self.scale.unwrap_or(s)),
            _ => recipe.variant,
        };
        let width = self.width.unwrap_or(recipe.width);
        // With another width, the weights keep their gain, std √width.
        let std = recipe.std * (recipe.width as f64 / width as f64).sqrt();
        Recipe {
            variant,
            width,
            heads: self.heads.unwrap_or(recipe.heads),
            std: self.std.unwrap_or(std),
            dropout: self.dropout.unwrap_or(recipe.dropout),
            steps: self.steps.unwrap_or(recipe.steps),
            batch: self.batch.unwrap_or(recipe.batch),
            lr: self.lr.unwrap_or(recipe.lr),
            weight_decay: self.weight_decay.unwrap_or(recipe.weight_decay),
            tested: self.tested.or(recipe.tested),
            ..recipe
        }
    }

    /// Whether a recipe is chosen.
    fn wants(&self, recipe: &Recipe) -> bool {
        let Variant { norm, place, .. } = recipe.variant;
        let placed = |place: Place| self.places.is_empty() || self.places.contains(&place);
        (self.depths.is_empty() || self.depths.contains(&recipe.depth))
            && (self.norms.is_empty() || self.norms.contains(&norm))
            && place.is_none_or(placed)
    }

    /// An entry of a plan with one cell per seed, if its recipe is chosen; `cell` makes the cell of a recipe.
    pub fn entry<C>(
        &self,
        (row, column): (impl Into<String>, impl Into<String>),
        paper: Option<&str>,
        recipe: Recipe,
        seeds: &[u64],
        cell: impl Fn(Recipe) -> C,
    ) -> Option<Entry<C>> {
        let recipe = self.apply(recipe);
        let seeded = seeds.iter().map(|&seed| Recipe {
            seed,
            ..recipe.clone()
        });
        self.wants(&recipe).then(|| Entry {
            row: row.into(),
            column: column.into(),
            paper: paper.map(str::to_owned),
            cells: seeded.map(cell).collect(),
        })
    }

    /// The depths that are named, else `default`.
    pub fn depths_or(&self, default: &[usize]) -> Vec<usize> {
        match &self.depths[..] {
            [] => default.to_vec(),
            named => named.to_vec(),
        }
    }

    /// The variants of cells on the command line: those that are named, else "none" and the default
    /// ContraNorm. A place that is not named is `place`.
    pub fn variants_or(&self, place: Place, s: f64) -> Vec<Variant> {
        let places = match &self.places[..] {
            [] => vec![place],
            named => named.to_vec(),
        };
        let norms = match &self.norms[..] {
            [] => vec![Normaliser::None, Normaliser::Contra],
            named => named.to_vec(),
        };
        let mut out = Vec::new();
        for norm in norms {
            for &place in &places {
                let variant = Variant::new(norm, place, s);
                if !out.contains(&variant) {
                    out.push(variant);
                }
            }
        }
        out
    }

    /// The options that choose cells; `of` gives the recipe of a cell.
    pub fn filters<C: 'static>(&self, of: fn(&C) -> &Recipe) -> Vec<Filter<'_, C>> {
        let place = move |c: &C, &x: &Place| of(c).variant.place == Some(x);
        Filter::each("--depth", &self.depths, move |c: &C, &x| of(c).depth == x)
            .chain(Filter::each("--norm", &self.norms, move |c: &C, &x| {
                of(c).variant.norm == x
            }))
            .chain(Filter::each("--place", &self.places, place))
            .chain(Filter::used(
                "--s",
                self.scale,
                "a normaliser with a scale in a chosen cell",
                move |c: &C| of(c).variant.s.is_some(),
            ))
            .collect()
    }

    /// The settings given, for titles.
    pub fn told(&self) -> String {
        let mut out = String::new();
        let mut tell = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                out += &format!(", {name} {value}");
            }
        };
        tell("s", self.scale.map(|x| x.to_string()));
        tell("width", self.width.map(|n| n.to_string()));
        tell("heads", self.heads.map(|n| n.to_string()));
        tell("std", self.std.map(|x| x.to_string()));
        tell("dropout", self.dropout.map(|x| x.to_string()));
        tell("steps", self.steps.map(|n| n.to_string()));
        tell("batch", self.batch.map(|n| n.to_string()));
        tell("η", self.lr.map(|x| x.to_string()));
        tell("weight decay", self.weight_decay.map(|x| x.to_string()));
        tell("tested", self.tested.map(|n| n.to_string()));
        out
    }
}
