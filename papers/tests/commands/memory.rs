//! Graph networks and transformers train within the memory that was estimated for them.

use super::*;
use emmy::data::cora_like;
use papers::support::memory::{Blocks, needed};
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

/// The options after the model and the network that they stand for.
type Case = (&'static [&'static str], fn(usize, usize) -> GraphNetConfig);

const CASES: [Case; 9] = [
    (&["gcn", "--layers", "6", "--hidden", "64"], |i, c| {
        GraphNetConfig {
            hidden: 64,
            ..GraphNetConfig::gcn(i, c).depth(6)
        }
    }),
    (&["sage", "--layers", "6", "--hidden", "64"], |i, c| {
        GraphNetConfig {
            hidden: 64,
            ..GraphNetConfig::sage(i, c).depth(6)
        }
    }),
    (&["gat", "--layers", "4"], |i, c| {
        GraphNetConfig::gat(i, c).depth(4)
    }),
    (&["gatv2", "--layers", "4"], |i, c| {
        GraphNetConfig::gatv2(i, c).depth(4)
    }),
    (&["sgc", "--layers", "40"], |i, c| {
        GraphNetConfig::sgc(i, c).depth(40)
    }),
    (&["gin", "--layers", "4"], |i, c| {
        GraphNetConfig::gin(i, c).depth(4)
    }),
    (&["gcnii", "--layers", "8"], |i, c| {
        GraphNetConfig::gcnii(i, c).depth(8)
    }),
    (&["gt", "--layers", "4"], |i, c| {
        GraphNetConfig::transformer(i, c).depth(4)
    }),
    (&["ggnn", "--layers", "4"], |i, c| {
        GraphNetConfig::ggnn(i, c).depth(4)
    }),
];

/// The output of a run of `cora`, and its largest memory.
fn run(args: &[&str]) -> (String, f64) {
    let common = [
        "--dataset",
        "cora-like",
        "--epochs",
        "2",
        "--json",
        "--figures",
        "none",
    ];
    measured(
        "cora",
        &[&common[..], &["--threads", "2", "--model"], args].concat(),
    )
}

/// The output of a program, and the largest memory that was measured during its run, in bytes.
fn measured(program: &str, args: &[&str]) -> (String, f64) {
    let folder = TempDir::new().unwrap();
    let mut child = (command(program, &folder, args))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0_f64;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM"));
        let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        most = most.max(1024.0 * kibibytes.unwrap_or(0.0));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(child.wait().unwrap().success(), "{args:?}");
    let mut out = String::new();
    child.stdout.unwrap().read_to_string(&mut out).unwrap();
    (out, most)
}

#[test]
fn every_model_trains_in_the_memory_that_is_estimated() {
    let set = cora_like(0);
    // The program and its data.
    let (_, data) = run(&["gcn", "--layers", "1"]);
    for (args, config) in CASES {
        let (out, peak) = run(args);
        let lines = json(&out);
        assert_eq!(lines[0]["model"], args[0]);
        assert_eq!(lines[0]["epochs"], 2);
        let loss = lines[0]["final_loss"].as_f64().unwrap();
        assert!(loss.is_finite() && loss > 0.0, "{args:?}: {loss}");
        let delta = lines[0]["max_delta"].as_f64();
        assert!(
            delta.is_none_or(|delta| delta < 1e-3),
            "{args:?}: {delta:?}"
        );
        if !cfg!(target_os = "linux") {
            continue;
        }
        let config = config(set.feature_count(), set.classes);
        let needed = needed::<f32>(&config, &set);
        assert!(data > 0.0);
        fits(&format!("{args:?}"), peak - data, needed);
    }
}

/// An estimate is not below the memory that was used. One that is far above it would refuse models that can
/// be trained.
#[track_caller]
fn fits(what: &str, used: f64, needed: f64) {
    let mib = |bytes: f64| (bytes / 1_048_576.0).round();
    let what = format!("{what}: {} MiB, estimated {}", mib(used), mib(needed));
    assert!(used <= needed, "{what}");
    assert!(needed < 4.0 * used + 16_777_216.0, "{what}");
}

/// The blocks of vision transformers, of 17 tokens, and of encoders, of 32.
#[cfg(target_os = "linux")]
#[test]
fn transformers_train_in_the_memory_that_is_estimated() {
    for (program, source, tokens) in [
        ("vision", ["--dataset", "strokes"], 17),
        ("encoder", ["--task", "acceptability"], 32),
    ] {
        let run = |layers: usize, width: usize, batch: usize| {
            let sizes = [layers, width, batch].map(|n| n.to_string());
            let [layers, width, batch] = sizes.each_ref().map(String::as_str);
            let sizes = [
                "--depth", layers, "--width", width, "--batch", batch, "--steps", "2",
            ];
            let rest = [
                "--norm",
                "none",
                "--tested",
                "100",
                "--out",
                "none",
                "--threads",
                "2",
            ];
            measured(program, &[&source[..], &sizes, &rest].concat()).1
        };
        let data = run(1, 4, 1);
        for (layers, width, examples) in [(8, 64, 32), (12, 32, 128), (2, 512, 8)] {
            let blocks = Blocks {
                layers,
                width,
                heads: 4,
                tokens,
                examples,
                evaluated: 100,
                steps: 2,
            };
            let used = run(layers, width, examples) - data;
            let what = format!("{program}, {layers} blocks of width {width}, {examples} examples");
            fits(&what, used, blocks.needed::<f32>());
        }
    }
}
