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
            "loss threshold: expected a finite number",
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
            &[
                "--figures",
                "file/x",
                "--epochs",
                "1",
                "--dataset",
                "karate",
            ],
            "file/x",
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
