//! Arguments that `cora` refuses.

use super::*;

#[test]
fn asked_for_by_name_a_missing_set_is_an_error_with_its_address() {
    let folder = TempDir::new().unwrap();
    let output = cora(&folder, &["--dataset", "cora"]);
    refused(&output, "Looked in:");
    refused(&output, "https://");
    let output = cora(&folder, &["--data", "nowhere"]);
    refused(&output, "nowhere");
}

#[test]
fn wrong_input_gets_a_clear_error() {
    let folder = TempDir::new().unwrap();
    std::fs::write(
        folder.path().join("noise.ckpt"),
        b"not a checkpoint at all, but long enough",
    )
    .unwrap();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    for (args, reason) in [
        (&["--dataset", "kora"][..], "cora, citeseer"),
        (&["--model", "mlp"], "gcn, gat, gatv2"),
        (
            &["--split", "3", "--dataset", "karate"],
            "split: expected a number below 1, found 3",
        ),
        (
            &["--layers", "0", "--dataset", "karate"],
            "layers: expected at least 1",
        ),
        (&["--dropout", "1.5", "--dataset", "karate"], "dropout"),
        (
            &["--lr", "nan", "--dataset", "karate"],
            "learning rate: expected a number",
        ),
        (
            &[
                "--lr",
                "1e30",
                "--optimizer",
                "sgd",
                "--dataset",
                "karate",
                "--float",
                "f32",
            ],
            "training loss of epoch",
        ),
        (
            &["--weight-decay=-1", "--dataset", "karate"],
            "weight decay",
        ),
        (
            &["--epochs", "0", "--dataset", "karate"],
            "--epochs: expected at least 1",
        ),
        (&["--seeds", "0"], "--seeds"),
        (&["--init", "xavir"], "xavier, xavier-zero, bal-x, bal-o"),
        (&["--loss-threshold", "low"], "--loss-threshold"),
        (
            &["--loss-threshold", "nan", "--dataset", "karate"],
            "not a finite number from 0 up",
        ),
        (
            &["--heads", "2", "--model", "gcn", "--dataset", "karate"],
            "--heads: expected a model with attention",
        ),
        (
            &["--share-weights", "--dataset", "karate"],
            "--share-weights: expected --model gatv2",
        ),
        (
            &["--save", "x", "--seeds", "2", "--dataset", "karate"],
            "a single run",
        ),
        (
            &["--resume", "none.ckpt", "--dataset", "karate"],
            "none.ckpt",
        ),
        (&["--resume", "noise.ckpt", "--dataset", "karate"], "byte 0"),
        (
            &["--lr", "1e-50", "--dataset", "karate"],
            "learning rate: expected 0, or a number that is not 0 in f32, found 1e-50",
        ),
        (
            &["--weight-decay", "1e-50", "--dataset", "karate"],
            "weight decay: expected 0, or a number that is not 0 in f32",
        ),
        (&["--loss-threshold=-1"], "not a finite number from 0 up"),
        (
            &["--loss-threshold", "1e300", "--dataset", "karate"],
            "--loss-threshold: expected less than 0.693, the loss of guessing one of 2 classes",
        ),
        (
            &["--layers", "1", "--hidden", "4", "--dataset", "karate"],
            "--hidden: expected --layers 2 or more, found --layers 1",
        ),
        (
            &["--layers", "1", "--heads", "4", "--dataset", "karate"],
            "--heads: expected --layers 2 or more",
        ),
        (
            &["--residual", "--dataset", "karate"],
            "--residual: expected more --layers: no two hidden layers are there to be added, found 1",
        ),
        (
            &["--layers", "4", "--residual", "3", "--dataset", "karate"],
            "--residual: expected a period of at most 2, since 3 layers are hidden, found 3",
        ),
        (
            &[
                "--layers",
                "1",
                "--activation",
                "relu",
                "--dataset",
                "karate",
            ],
            "--activation: expected --layers 2 or more",
        ),
        // A missing folder is an error even for a set that needs no folder.
        (
            &["--data", "nowhere", "--dataset", "karate"],
            "'nowhere' for '--data <DIR>'",
        ),
        (
            &["--data", "file", "--dataset", "karate"],
            "it is not a folder",
        ),
        (
            &[
                "--save",
                "no/such/folder/x.ckpt",
                "--epochs",
                "1",
                "--dataset",
                "karate",
            ],
            "x.ckpt",
        ),
    ] {
        refused(&cora(&folder, args), reason);
    }
}

#[test]
fn sizes_beyond_memory_and_threads_beyond_reason_are_refused_at_once() {
    let folder = TempDir::new().unwrap();
    let most = usize::MAX.to_string();
    for size in [&most, "1000000000"] {
        for model in ["gcn", "gat", "gatv2", "sage"] {
            for option in ["--layers", "--hidden", "--heads"] {
                if option == "--heads" && !model.starts_with("gat") {
                    continue;
                }
                let args = ["--dataset", "karate", "--model", model, option, size];
                refused(&cora(&folder, &args), "expected at most");
            }
        }
        refused(&cora(&folder, &["--threads", size]), "is not in 0..=256");
    }
    refused(
        &cora(&folder, &["--threads", "8000"]),
        "8000 is not in 0..=256",
    );
    // The parameters are within their bound, but the neurons of 4000 layers need half a terabyte.
    let args = ["--dataset", "cora-like", "--model", "gcn", "--float", "f64"];
    let size = ["--hidden", "1000", "--layers", "4000"];
    let output = cora(&folder, &[&args[..], &size].concat());
    refused(&output, "memory to train the model: expected at most");
}

/// Help that cannot be written, as on a full disk, is an error.
#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_an_error() {
    let folder = TempDir::new().unwrap();
    for name in ["cora", "balance"] {
        for option in ["--help", "--version"] {
            let full = std::fs::File::options().write(true).open("/dev/full");
            let mut run = command(name, &folder, &[option]);
            run.stdout(full.unwrap())
                .stderr(std::process::Stdio::piped());
            let output = run.spawn().unwrap().wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{name} {option}");
            assert!(text(&output.stderr).contains("standard output"));
            // Otherwise it is printed.
            let output = command(name, &folder, &[option]).output().unwrap();
            assert!(succeeded(&output).0.contains(name));
        }
    }
}

/// Options that change no chosen cell, and sizes that no machine has.
#[test]
fn options_without_effect_and_sizes_without_end_are_refused() {
    let folder = TempDir::new().unwrap();
    for (program, args, reason) in [
        (
            "deep_attention",
            "--dataset karate --model gcn --layers 2 --attention-dropout 0.3",
            "--attention-dropout: expected a model with attention, gat or gt",
        ),
        (
            "deep_attention",
            "--dataset karate --model gcn --layers 2 --attention-dropout NaN",
            "not a probability, 0 to 1",
        ),
        (
            "deep_attention",
            "--dataset karate --model gcn --layers 2 --heads 3",
            "--heads: expected a model with attention",
        ),
        (
            "deep_attention",
            "--dataset karate --model gcn --layers 2 --trees 3",
            "--trees: expected trees",
        ),
        (
            "deep_attention",
            "--dataset karate --model gcn --layers 2 --growth",
            "--growth: expected --model gat with --norm none or --norm lipschitz",
        ),
        (
            "oversmoothing",
            "--dataset karate --norm none --layers 2 --s 0.5",
            "--s: expected a norm with a scale",
        ),
        (
            "balance",
            "--dataset karate --layers 2 --both-directions",
            "--both-directions: expected a heterophilic data set",
        ),
        (
            "vision",
            "--dataset strokes --norm none --depth 1 --s 0.5",
            "--s: expected a normaliser with a scale",
        ),
        (
            "vision",
            "--dataset strokes --depth 1 --width 1000000",
            "memory to train the model",
        ),
        (
            "vision",
            "--dataset strokes --depth 1000000",
            "memory to train the model",
        ),
        (
            "encoder",
            "--depth 1 --steps 4294967296",
            "memory to train the model",
        ),
        (
            "encoder",
            "--depth 1 --batch 1000000",
            "memory to train the model",
        ),
        (
            "self_attention",
            "--layers 1000 --width 4096",
            "memory to train the model",
        ),
        (
            "oversmoothing",
            "--dataset karate --norm none --layers 4000 --hidden 1024 --float f64",
            "memory to train the model",
        ),
        ("char_lm", "--batch 1000000", "memory to train the model"),
        (
            "char_lm",
            "--steps 18446744073709551615 --eval-interval 9223372036854775808",
            "memory to train the model",
        ),
        (
            "cora",
            "--dataset karate --weight-decay 1e38",
            "weight decay: expected a number, 0 to 10⁶",
        ),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let output = command(program, &folder, &args).output().unwrap();
        refused(&output, reason);
    }
}
