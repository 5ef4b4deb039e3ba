//! The laws that a search finds in a model, as text for readers and as JSON for programs.

use crate::laws::models::Model;
use emmy::symmetry::{Ansatz, Discovery, Field, FoundLaw};
use serde_json::{Value, json};

/// The names of the columns.
pub const HEAD: &str = "model                parameters  declared  found  upper  max |δ|  seconds";

/// A line of the table.
pub fn line(name: &str, found: &Discovery, seconds: f64) -> String {
    let upper = found.upper.map_or("—".to_owned(), |n| n.to_string());
    format!(
        "{name:<20} {:>10}  {:>8}  {:>5}  {upper:>5}  {:>7.0e}  {seconds:>7.1}  {}",
        found.parameters,
        found.declared,
        found.found,
        found.max_delta,
        verdict(found)
    )
}

/// Whether the list is complete, in words.
fn verdict(found: &Discovery) -> String {
    let beside = found.discovered().count();
    let mut out = match (found.upper, found.ansatz) {
        (None, _) if found.field != Field::Gradient => "along another field".to_owned(),
        (None, ansatz) => {
            let form = match ansatz {
                Ansatz::Full => "quadratic laws",
                Ansatz::Matrices => "laws between rows and columns",
                Ansatz::Neurons => "laws of single neurons",
            };
            format!("complete among {form}, too large to count others")
        }
        (Some(upper), _) if upper == found.found => "complete".to_owned(),
        (Some(upper), ansatz) => format!(
            "up to {} more, of other form{}",
            upper - found.found,
            if ansatz == Ansatz::Full {
                ""
            } else {
                " (see --form)"
            }
        ),
    };
    if beside > 0 {
        out += &format!(", {beside} not declared:");
    }
    let of_gradient = found.field == Field::Gradient;
    for (what, laws) in [("false", &found.broken), ("not found", &found.missing)] {
        if of_gradient && !laws.is_empty() {
            out += &format!("; declared and {what}: {}", laws.join("; "));
        }
    }
    out
}

/// A law as a line under its model.
pub fn law(law: &FoundLaw) -> String {
    match &law.declared {
        Some(name) => format!("    {name}: {}", law.formula),
        None => format!("    {}", law.formula),
    }
}

/// The object of a model.
pub fn json(model: &Model, found: &Discovery, seconds: f64) -> Value {
    // What is declared holds along the gradient; along another field it need not.
    let of_gradient = found.field == Field::Gradient;
    let formulas: Vec<&str> = found.discovered().map(|law| &*law.formula).collect();
    json!({
        "model": model.name,
        "about": model.about,
        "parameters": found.parameters,
        "declared": found.declared,
        "found": found.found,
        "upper": found.upper,
        "field": match found.field {
            Field::Gradient => "gradient",
            Field::Sign => "sign",
            Field::Polar => "muon",
        },
        "complete": of_gradient.then(|| found.is_complete()),
        "max_delta": found.max_delta,
        "seconds": seconds,
        "form": format!("{:?}", found.ansatz).to_lowercase(),
        "gap": [found.gap.0, found.gap.1],
        "discovered": formulas,
        "false": of_gradient.then_some(&found.broken),
        "not_found": of_gradient.then_some(&found.missing),
    })
}
