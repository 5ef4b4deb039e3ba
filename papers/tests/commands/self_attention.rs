//! `self_attention`: the table and the figure of deep transformers, on small plans.

use crate::{command, json, refused, succeeded};
use papers::self_attention::frequency_losses;
use serde_json::Value;
use std::process::Output;
use tempfile::TempDir;

fn run(folder: &TempDir, more: &[&str]) -> Output {
    let small = [
        "--dataset",
        "alice",
        "--width",
        "8",
        "--steps",
        "4",
        "--table",
        "1",
    ];
    let args = [&small[..], more].concat();
    command("self_attention", folder, &args).output().unwrap()
}

#[test]
fn a_table_has_a_cell_per_depth_and_kind_of_attention() {
    let folder = TempDir::new().unwrap();
    let args = ["--layers", "1", "--layers", "2", "--figure", "4", "--json"];
    let (out, _) = succeeded(&run(&folder, &args));
    let objects = json(&out);
    // Each cell in the table, and in the figure.
    assert_eq!(objects.len(), 12);
    let models = objects
        .iter()
        .map(|object| object["model"].as_str().unwrap());
    let models: Vec<_> = models.take(6).collect();
    assert_eq!(
        models,
        ["dot", "l2", "contractive", "dot", "l2", "contractive"]
    );
    let mut losses: Vec<f64> = (objects[..6].iter())
        .map(|object| object["test_loss_mean"].as_f64().unwrap())
        .collect();
    assert!(
        losses.iter().all(|loss| (2.0..6.0).contains(loss)),
        "{losses:?}"
    );
    losses.sort_by(f64::total_cmp);
    losses.dedup();
    assert_eq!(losses.len(), 6);
    assert_eq!(objects[3]["paper"], "1.061");
    assert!(objects[0]["paper"].is_null());
    assert!(
        folder
            .path()
            .join("figures/self-attention-figure-4.svg")
            .exists()
    );

    let path = folder.path().join("results/self_attention.jsonl");
    let before = std::fs::read_to_string(&path).unwrap();
    for line in json(&before) {
        let layers = line["cell"]["layers"].as_u64().unwrap();
        let curve = line["curve"].as_array().unwrap();
        let gradients = line["gradients"].as_array().unwrap();
        assert_eq!((curve.len(), gradients.len()), (1, 1));
        for norms in gradients {
            let norms = norms.as_array().unwrap();
            assert_eq!(norms.len() as u64, layers);
            assert!(norms.iter().all(|norm| norm.as_f64().unwrap() > 0.0));
        }
    }
    // Finished cells are not run again, and the table can be shown alone.
    let args = ["--layers", "2", "--model", "l2", "--show"];
    let (table, _) = succeeded(&run(&folder, &args));
    assert!(
        table.contains("L2, W_Q = W_K") && table.contains("(1.168)"),
        "{table}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
}

/// The losses of models that know only how frequent characters, pairs and triples are are printed and drawn,
/// and a single evaluation is visible.
#[test]
fn losses_are_shown_beside_the_frequencies_of_the_characters() {
    let folder = TempDir::new().unwrap();
    let args = ["--width", "8", "--steps", "4", "--layers", "1"];
    let (out, err) = succeeded(&command("self_attention", &folder, &args).output().unwrap());
    let alice = crate::alice();
    let mut counts = vec![1.0_f64; alice.symbol_count()];
    for &symbol in &alice.train {
        counts[usize::from(symbol)] += 1.0;
    }
    let all: f64 = counts.iter().sum();
    let nats = (alice.validation.iter()).map(|&symbol| (all / counts[usize::from(symbol)]).ln());
    let mean = nats.sum::<f64>() / alice.validation.len() as f64;
    let said = format!("the frequencies alone give, of characters {mean:.3}, of pairs ");
    assert!(out.contains(&said), "{said}: {out}");
    let [_, pairs, triples] = frequency_losses(&alice, &alice.validation);
    assert!(
        mean > pairs + 0.3 && pairs > triples + 0.1,
        "{mean} {pairs} {triples}"
    );
    let said = format!(", of pairs {pairs:.3}, of triples {triples:.3}");
    assert!(out.contains(&said), "{said}: {out}");
    assert!(err.contains(" s on two processors"), "{err}");
    let svg = std::fs::read_to_string(folder.path().join("figures/self-attention.svg")).unwrap();
    for what in ["characters", "pairs", "triples"] {
        assert_eq!(svg.matches(&format!("frequencies of {what}")).count(), 3);
    }
    assert_eq!(svg.matches("<circle").count(), 3);
}

/// A factor of attention's output is that of its last weight at the start, and the size of attention that is
/// printed has it. Without attention, nothing depends on its weights.
#[test]
fn attention_is_scaled() {
    let folder = TempDir::new().unwrap();
    let run = |more: &[&str]| {
        let args = [&["--layers", "2", "--model", "dot"], more].concat();
        let (out, _) = succeeded(&run(&folder, &args));
        assert!(
            out.contains("Size of the first block's attention at the start"),
            "{out}"
        );
        for option in more.chunks(2) {
            let title = match option[0] {
                "--branch" => format!("W_O × {} at the start", option[1]),
                _ => format!("attention × {}", option[1]),
            };
            assert!(out.contains(&title), "{title}: {out}");
        }
        let lines = std::fs::read_to_string(folder.path().join("results/self_attention.jsonl"));
        let line = json(&lines.unwrap()).pop().unwrap();
        [&line["branch_size"], &line["test_loss"]].map(|x| x.as_f64().unwrap())
    };
    let [size, loss] = run(&[]);
    assert!(size > 1e-4, "{size}");
    let [started, half] = run(&["--branch", "0.5"]);
    let [scaled, other] = run(&["--factor", "0.5"]);
    assert!((started / size - 0.5).abs() < 1e-6 && (scaled / size - 0.5).abs() < 1e-6);
    assert!(loss != half && half != other && loss != other);
    let [none, without] = run(&["--factor", "0"]);
    let [_, also_without] = run(&["--factor", "0", "--branch", "0"]);
    assert_eq!((none, without), (0.0, also_without));
    let [none, begun] = run(&["--branch", "0"]);
    assert!(none == 0.0 && begun != without);
    // The paper's number stands beside the paper's network alone.
    for (more, paper) in [("", "1.061".into()), (" --factor 0", Value::Null)] {
        let args = format!("--layers 2 --model dot --json{more}");
        let args: Vec<&str> = args.split(' ').collect();
        let (out, _) = succeeded(&self::run(&folder, &args));
        assert_eq!(json(&out)[0]["paper"], paper, "{out}");
        // One run has no deviation.
        assert_eq!(json(&out)[0]["test_loss_std"], Value::Null, "{out}");
    }
    refused(
        &self::run(&folder, &["--factor", "-1"]),
        "--factor: expected a number that is at least 0, found -1",
    );
}

#[test]
fn plain_values_are_a_kind_of_their_own() {
    let folder = TempDir::new().unwrap();
    let args = ["--layers", "2", "--model", "l2-plain", "--json"];
    let (out, _) = succeeded(&run(&folder, &args));
    let objects = json(&out);
    assert_eq!(objects.len(), 1);
    assert_eq!(
        (&objects[0]["model"], &objects[0]["paper"]),
        (&"l2-plain".into(), &Value::Null)
    );
}

#[test]
fn what_cannot_be_run_is_refused() {
    let folder = TempDir::new().unwrap();
    refused(
        &run(&folder, &["--lr", "nan"]),
        "--lr: expected a number above 0",
    );
    let args = ["--table", "1", "--width", "6"];
    let output = command("self_attention", &folder, &args).output().unwrap();
    refused(&output, "--width: expected a multiple of the 4 heads");
    let args = ["--table", "1", "--steps", "70"];
    let output = command("self_attention", &folder, &args).output().unwrap();
    refused(&output, "--steps: expected at most 50, or a multiple of 50");
    refused(&run(&folder, &["--figure", "3"]), "3 is not in 4..=4");
}
