//! Every model of `cora` trains within the memory that was estimated for it.

use super::*;
use crate::support::memory::needed;
use emmy::data::cora_like;
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

/// The output of a run of `cora`, and the largest memory that was measured during the run, in bytes.
fn run(args: &[&str]) -> (String, f64) {
    let folder = TempDir::new().unwrap();
    let common = [
        "--dataset",
        "cora-like",
        "--epochs",
        "2",
        "--json",
        "--figures",
        "none",
    ];
    let args = [&common[..], &["--threads", "2", "--model"], args].concat();
    let mut child = (command("cora", &folder, &args))
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
        let mib = |bytes: f64| (bytes / 1_048_576.0).round();
        let what = format!(
            "{args:?}: {} MiB, estimated {}",
            mib(peak - data),
            mib(needed)
        );
        assert!(data > 0.0 && peak - data <= needed, "{what}");
        // A larger estimate would refuse networks that can be trained.
        assert!(needed < 4.0 * (peak - data) + 16_777_216.0, "{what}");
    }
}
