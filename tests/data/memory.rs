//! Small files cannot fill the memory, neither when they are read nor in a training on their data. Each case
//! runs in its own process with limited memory; one more byte would end the process.

use crate::files::{self, npz, pickle};
use emmy::data::{Dataset, Direction, heterophilic, planetoid};
use emmy::nn::{Activation, GraphNet, GraphNetConfig, Mlp};
use emmy::optim::{Algorithm, Optimizer};
use emmy::sparse::Csr;
use emmy::tensor::memory;
use emmy::train::{self, NodeClassification, TrainConfig, TrainState, Trainer};
use emmy::{Tape, Tensor, init, store};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Set in the processes with little memory: the folder with the files.
const FOLDER: &str = "EMMY_TEST_FOLDER";

/// The folder, in a process with little memory.
fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs one test of this program with at most `mebibytes` MiB of memory; returns the text that it prints
/// after "said: ".
fn within(mebibytes: u64, test: &str, folder: &Path) -> String {
    let limited = format!(
        "ulimit -v {}; exec \"$0\" --exact memory::{test} --nocapture",
        mebibytes << 10
    );
    let output = (Command::new("sh").args(["-c", &limited]))
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder)
        // Each thread of a pool reserves memory, so that the limit would depend on the machine.
        .env("RAYON_NUM_THREADS", "2")
        .output()
        .unwrap();
    let (out, err) = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8(bytes).unwrap())
        .into();
    assert!(output.status.success(), "{test}: {out}\n{err}");
    let said = out.lines().filter_map(|line| line.split_once("said: "));
    said.map(|(_, said)| said).collect::<Vec<_>>().join("\n")
}

fn say(text: impl std::fmt::Display) {
    // On a line of its own: the harness begins one with the name of the test.
    println!("\nsaid: {text}");
}

/// The largest amount of memory this process has had, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmPeak"))
        .unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes >> 10
}

/// The number of pages of memory that this process was given so far (minor faults).
fn new_pages() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Two epochs of graph attention with 64 channels.
fn train(set: &Dataset, x: &Csr<f32>) {
    let config = GraphNetConfig::gat(set.feature_count(), set.classes);
    let neighbours = config.neighbourhood(&set.graph);
    let task = NodeClassification::new(&set.labels, &set.splits[0], |net: &GraphNet<_>, pass| {
        net.forward(pass, pass.tape().sparse(x), &neighbours)
    });
    let how = TrainConfig {
        epochs: 2,
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(GraphNet::new(config, 0).unwrap(), how).unwrap();
    trainer.fit(&task.unwrap(), |_, _| Ok(())).unwrap();
    say(format_args!(
        "{} nodes, {} features, {} edges, {} classes: trained, peak {} MiB",
        set.nodes(),
        set.feature_count(),
        set.graph.edges(),
        set.classes,
        peak()
    ));
}

/// The work of a process of the tests below: it reads a heterophilic set and trains on it.
#[test]
fn read_npz() {
    let Some(folder) = folder() else { return };
    match heterophilic::load(&folder, "texas", Direction::Symmetrised) {
        Ok(set) => train(&set, &set.raw_features()),
        Err(e) => say(e),
    }
}

/// The work of a process of the tests below: it reads a citation set and trains on it.
#[test]
fn read_pickles() {
    let Some(folder) = folder() else { return };
    match planetoid::load(&folder, "pubmed") {
        Ok(set) => train(&set, &set.normalized_features()),
        Err(e) => say(e),
    }
}

/// The work of a process of the tests below: it reads a checkpoint.
#[test]
fn read_checkpoint() {
    let Some(folder) = folder() else { return };
    match store::load::<f32, TrainState<f32>>(&folder.join("run.ckpt")) {
        Ok(state) => say(format_args!("{} epochs", state.epochs())),
        Err(e) => say(e),
    }
}

/// The work of a process of the test below: a training of a network of three layers, whose number of rows is
/// another in each step. A step needs 15 MiB.
#[test]
fn train_on_changing_rows() {
    if folder().is_none() {
        return;
    }
    let mut net = Mlp::<f32>::new(
        &[64, 256, 256, 1],
        Activation::Tanh,
        true,
        &mut init::rng(0),
    );
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    for step in 0..300 {
        let rows = 2000 + step;
        train::step(&mut net, &mut optimizer, 1e-3, step as u64, |net, pass| {
            let x = pass.tape().constant(Tensor::from_elem(vec![rows, 64], 0.1));
            net.forward(pass, x).square().mean_all()
        })
        .unwrap();
    }
    say(format_args!("trained, peak {} MiB", peak()));
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn rows_that_change_from_step_to_step_do_not_fill_the_memory() {
    let folder = TempDir::new().unwrap();
    let said = within(700, "train_on_changing_rows", folder.path());
    assert!(said.contains("trained"), "{said}");
}

/// A heterophilic set of n nodes, of which node 0 is trained on, 1 validated, 2 tested in every split.
fn write_npz(folder: &Path, n: usize, d: usize, edges: &[[i64; 2]], labels: &[i64]) -> usize {
    let features: Vec<u8> = (0..n * d)
        .flat_map(|k| f32::from(u8::from(k % 2 == 0)).to_le_bytes())
        .collect();
    let mask = |node: usize| -> Vec<u8> { (0..10 * n).map(|k| u8::from(k / 10 == node)).collect() };
    let masks = |node| npz::npy("|b1", true, &format!("(10, {n})"), &mask(node));
    let pairs = format!("({}, 2)", edges.len());
    let bytes = npz::archive(&[
        (
            "node_features.npy",
            npz::npy("<f4", false, &format!("({n}, {d})"), &features),
        ),
        (
            "node_labels.npy",
            npz::npy("<i8", false, &format!("({n},)"), &npz::i8(labels)),
        ),
        (
            "edges.npy",
            npz::npy("<i8", false, &pairs, &npz::i8(edges.as_flattened())),
        ),
        ("train_masks.npy", masks(0)),
        ("val_masks.npy", masks(1)),
        ("test_masks.npy", masks(2)),
    ]);
    std::fs::write(folder.join("texas.npz"), &bytes).unwrap();
    bytes.len()
}

#[test]
fn one_large_label_does_not_make_as_many_classes() {
    let folder = TempDir::new().unwrap();
    let (n, mut labels) = (60_000, vec![0; 60_000]);
    labels[n - 1] = 59_999;
    let length = write_npz(folder.path(), n, 1, &[[0, 1]], &labels);
    assert!(length < 5000, "{length} bytes");
    let said = within(500, "read_npz", folder.path());
    assert!(
        said.ends_with("expected a class from 0 to below 256, found 59999"),
        "{said}"
    );
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn the_largest_archive_that_is_read_can_be_trained_on() {
    let folder = TempDir::new().unwrap();
    // All limits at once: 65 536 nodes, 2²⁰ edges, 256 classes, and features for the rest of the 64 MiB.
    let (n, m, d) = (1 << 16, 1 << 20, 170);
    let edges: Vec<_> = (0..m).map(|e| [e / 16, e / 16 + 1 + e % 16]).collect();
    let edges: Vec<_> = edges.into_iter().filter(|[_, v]| *v < n).collect();
    let labels: Vec<_> = (0..n).map(|i| i % 256).collect();
    write_npz(folder.path(), n as usize, d, &edges, &labels);
    let said = within(2000, "read_npz", folder.path());
    println!("{said}");
    assert!(said.contains("256 classes: trained"), "{said}");
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn the_widest_archive_that_is_read_can_be_trained_on() {
    let folder = TempDir::new().unwrap();
    let (n, d) = (200, 1 << 16);
    let edges: Vec<_> = (1..n as i64).map(|i| [i - 1, i]).collect();
    write_npz(folder.path(), n, d, &edges, &vec![0; n]);
    let said = within(2000, "read_npz", folder.path());
    println!("{said}");
    assert!(said.contains("65536 features"), "{said}");
    write_npz(folder.path(), n, d + 1, &edges, &vec![0; n]);
    let said = within(500, "read_npz", folder.path());
    assert!(
        said.contains("at most 65536 nodes and 65536 features"),
        "{said}"
    );
}

/// The small citation set with so many columns, and a last number in the last row of `allx`.
fn write_wide(folder: &Path, columns: usize, last: Option<f32>) {
    let rows = |nodes: &[usize]| -> Vec<_> { nodes.iter().map(|&i| files::row(i)).collect() };
    let all: Vec<usize> = (0..files::M).collect();
    let mut whole = rows(&all);
    whole[files::M - 1].extend(last.map(|x| (columns - 1, x)));
    let mut parts = files::small_set();
    parts.insert("x", pickle::csr(columns, &rows(&all[..6])));
    parts.insert("allx", pickle::csr(columns, &whole));
    parts.insert("tx", pickle::csr(columns, &rows(&files::TEST)));
    files::write_parts(folder, "pubmed", &parts);
}

#[test]
fn wide_citation_sets_are_trained_on_and_never_dense() {
    let folder = TempDir::new().unwrap();
    write_wide(folder.path(), 1 << 16, Some(1.0));
    let said = within(1000, "read_pickles", folder.path());
    println!("{said}");
    assert!(said.contains("65536 features"), "{said}");
    // A negative number: with the smallest number made 0, no zero would be left.
    write_wide(folder.path(), 1 << 16, Some(-1.0));
    let said = within(500, "read_pickles", folder.path());
    assert!(
        said.ends_with("expected a finite number from 0 up, found -1"),
        "{said}"
    );
    write_wide(folder.path(), 1 << 20, None);
    let said = within(500, "read_pickles", folder.path());
    assert!(said.contains("at most 65536 columns"), "{said}");
}

/// The work of a process of the test below: buffers of 512 MiB, no two of one length. Nothing is written to
/// them, so they need addresses alone.
#[test]
fn take_buffers_of_many_lengths() {
    if folder().is_none() {
        return;
    }
    for k in 0..20 {
        drop(memory::zeros::<f64>((1 << 26) - 100 - k));
    }
    say(peak());
}

#[test]
fn buffers_that_wait_for_their_next_use_have_a_bound() {
    let folder = TempDir::new().unwrap();
    let peak = within(4000, "take_buffers_of_many_lengths", folder.path());
    let peak: u64 = peak.parse().unwrap();
    // Four such buffers are kept, and not twenty.
    assert!((2048..3500).contains(&peak), "{peak} MiB");
}

/// The work of a process of the test below: two kinds of tapes, of 60 and 48 MiB, one of which comes every
/// fourth time, with a hundred tapes without tensors between them. A buffer that is found has pages
/// already.
#[test]
fn take_buffers_tape_by_tape() {
    if folder().is_none() {
        return;
    }
    let mut before = 0;
    for tape in 0..40 {
        if tape == 2 {
            before = new_pages();
        }
        let begun = Tape::<f32>::new();
        let (len, count) = if tape % 4 == 0 {
            (5 << 20, 3)
        } else {
            (3 << 20, 4)
        };
        let mut taken: Vec<_> = (0..count).map(|_| memory::scratch::<f32>(len)).collect();
        taken.iter_mut().for_each(|buffer| buffer.fill(1.0));
        drop(taken);
        drop(begun);
        (0..100).for_each(|_| drop(Tape::<f32>::new()));
    }
    say(new_pages() - before);
}

#[test]
fn a_tape_finds_the_buffers_of_the_tapes_before() {
    let folder = TempDir::new().unwrap();
    let pages = within(1000, "take_buffers_tape_by_tape", folder.path());
    let pages: u64 = pages.parse().unwrap();
    // Also of the largest size, 2 MiB, the buffers of 38 tapes would be more than 900 pages.
    assert!(pages < 300, "{pages} pages");
}

#[test]
fn a_length_in_a_checkpoint_is_not_believed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    // A description of two thousand million bytes, in a file of some hundred.
    store::save::<f32>(&path, &(2_u64 << 30, [0_u64; 32], [1.0_f32; 8])).unwrap();
    assert!(path.metadata().unwrap().len() < 400);
    let said = within(500, "read_checkpoint", folder.path());
    assert!(said.contains("beyond the body"), "{said}");
}
