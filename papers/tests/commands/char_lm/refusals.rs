//! Wrong input.

use super::*;

#[test]
fn wrong_input_is_refused_with_a_reason() {
    let folder = TempDir::new().unwrap();
    let file =
        |name: &str, content: &[u8]| std::fs::write(folder.path().join(name), content).unwrap();
    file("empty", b"");
    file("short", b"0123456789");
    file("binary", b"text and \xff\xfe");
    file("noise.ckpt", b"not a checkpoint at all, but long enough");
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    let most = usize::MAX.to_string();
    for (args, reason) in [
        (&["--text", "folder"][..], "folder: not a regular file"),
        (&["--text", "nowhere"], "nowhere: "),
        (
            &["--text", "empty"],
            "empty: expected a text, found no character",
        ),
        (
            &["--text", "short"],
            "short: expected at least 11 characters",
        ),
        (
            &["--text", "binary"],
            "binary: byte 9: expected text in UTF-8, found the byte 0xff",
        ),
        (
            &["--text", "empty", "--dataset", "alice"],
            "cannot be used with",
        ),
        (&["--dataset", "hamlet"], "shakespeare, ptb, alice"),
        (&["--data", "nowhere"], "nowhere"),
        (
            &["--data", "folder"],
            "Tiny Shakespeare (the file input.txt) was not found",
        ),
        (&["--dataset", "ptb"], "Penn Treebank"),
        (&["--prompt", "a €"], "--prompt: expected characters among"),
        (&["--prompt", ""], "--prompt"),
        (
            &["--width", "9"],
            "--width: expected a multiple of the 2 heads, found 9",
        ),
        (&["--width", "0"], "--width"),
        (&["--layers", "0"], "--layers"),
        (&["--steps", "0"], "--steps"),
        (&["--eval-interval", "0"], "--eval-interval"),
        (
            &["--context", "23"],
            "validation text: expected more characters than the context, 23, found 23",
        ),
        (&["--context", "0"], "--context"),
        (&["--stride", "0"], "--stride"),
        (
            &["--stride", "9"],
            "--stride: expected at most the context, 8, found 9",
        ),
        (&["--top-k", "0"], "--top-k"),
        (&["--temperature", "-0.5"], "not a finite number from 0 up"),
        (&["--temperature", "nan"], "not a finite number from 0 up"),
        (&["--lr", "nan"], "learning rate: expected a number"),
        (&["--dropout", "1"], "--dropout: expected a probability"),
        (
            &["--model", "lstm", "--norm", "pre"],
            "--norm: expected a model with attention, found lstm",
        ),
        (
            &["--layers", &most],
            "memory to train the model: expected at most",
        ),
        (
            &["--batch", &most],
            "memory to train the model: expected at most",
        ),
        (&["--threads", "1000"], "is not in 0..=256"),
        (&["--resume", "noise.ckpt"], "byte 0"),
        (&["--save", "no/such/folder/x.ckpt"], "x.ckpt"),
        (
            &["--model", "gru"],
            "transformer, l2, l2-tied, contractive, lstm, certified",
        ),
        (
            &["--window", "3"],
            "--window: expected a model with this option, found transformer",
        ),
        (
            &["--mean-of", "noise.ckpt"],
            "--mean-of: expected a model with this option, found transformer",
        ),
        (
            &["--model", "certified", "--mean-of", "noise.ckpt"],
            "byte 0",
        ),
        (
            &["--model", "certified", "--mean-of", "x", "--save", "y"],
            "cannot be used with",
        ),
        (
            &["--model", "certified", "--norm", "pre"],
            "--norm: expected a model with this option, found certified",
        ),
        (
            &["--steps", &most, "--eval-interval", &most],
            "memory to train the model: expected at most",
        ),
    ] {
        refused(&tiny(&folder, args), reason);
    }
    let args = ["--model", "lstm", "--heads", "2"];
    let reason = "--heads: expected a model with attention, found lstm";
    refused(&char_lm(&folder, &args), reason);
}

#[test]
fn a_diverging_training_says_so() {
    let folder = TempDir::new().unwrap();
    let output = tiny(&folder, &["--lr", "1e30", "--schedule", "fixed"]);
    assert_eq!(output.status.code(), Some(1));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let summary = json(&out).pop().unwrap();
    assert!(
        summary["val_loss"].is_null() && summary["best_step"].is_null(),
        "{summary}"
    );
    assert!(
        summary["stopped"].as_str().unwrap().contains("loss"),
        "{summary}"
    );
    assert!(
        err.contains("error: training: expected one that does not diverge"),
        "{err}"
    );
}
