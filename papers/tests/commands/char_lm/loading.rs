//! Models of checkpoints: samples without training, and training on another text.

use super::*;

/// Model options alone: without a text, nothing is trained.
const MODEL: [&str; 10] = [
    "--layers",
    "1",
    "--width",
    "8",
    "--heads",
    "2",
    "--context",
    "8",
    "--load",
    "run.ckpt",
];

fn write(folder: &TempDir, more: &[&str]) -> Output {
    char_lm(folder, &[&MODEL[..], more].concat())
}

#[test]
fn a_checkpoint_writes_without_a_text() {
    let folder = TempDir::new().unwrap();
    let args = ["--save", "run.ckpt", "--prompt", "a rose", "--sample", "40"];
    let err = run(&folder, &args).1;
    let sample = err
        .lines()
        .rev()
        .take_while(|line| !line.contains(" s"))
        .collect::<Vec<_>>();
    let sample = sample.into_iter().rev().collect::<Vec<_>>().join("\n");
    std::fs::remove_file(folder.path().join("text")).unwrap();
    let before = std::fs::read(folder.path().join("run.ckpt")).unwrap();

    let (out, err) = succeeded(&write(&folder, &args[2..]));
    assert!(out.contains(sample.trim()), "{out}\n{sample}");
    assert!(out.trim_start_matches('\n').starts_with("a rose"), "{out}");
    assert!(
        err.contains("run.ckpt: validation ") && err.contains("after "),
        "{err}"
    );
    assert_eq!(
        std::fs::read(folder.path().join("run.ckpt")).unwrap(),
        before
    );
    // A new line before, the prompt, so many characters, and two line ends.
    for (count, more) in [(7, &["--sample", "7"][..]), (300, &[])] {
        let args = [&["--prompt", "a rose"], more].concat();
        let (out, _) = succeeded(&write(&folder, &args));
        assert_eq!(out.chars().count(), 1 + 6 + count + 2, "{out:?}");
    }
    let (greedy, _) = succeeded(&write(&folder, &["--temperature", "0"]));
    let (other, _) = succeeded(&write(&folder, &["--temperature", "0", "--seed", "9"]));
    assert_eq!(greedy, other);

    refused(
        &write(&folder, &["--prompt", "no"]),
        "--prompt: expected characters among the 9 symbols of the text, found 'n' (U+006E)",
    );
    refused(&write(&folder, &["--sample", "0"]), "--sample");
    refused(
        &write(&folder, &["--resume", "run.ckpt"]),
        "cannot be used with",
    );
    let wider = ["--layers", "1", "--width", "16", "--load", "run.ckpt"];
    refused(
        &char_lm(&folder, &wider),
        "run.ckpt: weights: expected those of a transformer with 1 layers of width 16",
    );
    // The same tensors, other functions.
    let load = [
        "--layers",
        "1",
        "--width",
        "8",
        "--context",
        "8",
        "--load",
        "run.ckpt",
    ];
    for (options, expected) in [
        (&["--heads", "1"][..], "width 8, 1 heads, norm Pre (--model"),
        (
            &["--heads", "2", "--norm", "post"],
            "width 8, 2 heads, norm Post (--model",
        ),
        (
            &["--heads", "2", "--model", "l2"],
            "those of a l2 with 1 layers",
        ),
    ] {
        refused(&char_lm(&folder, &[&load[..], options].concat()), expected);
    }
    for option in ["--summary", "--watch", "--json"] {
        refused(
            &write(&folder, &[option]),
            "without which nothing is trained",
        );
    }
    let saves = write(&folder, &["--save", "new.ckpt"]);
    refused(
        &saves,
        "--save: expected --text FILE, --data DIR or --dataset NAME",
    );
}

#[test]
fn a_checkpoint_learns_another_text_of_its_symbols() {
    let folder = TempDir::new().unwrap();
    let long = ["--steps", "200", "--eval-interval", "100", "--lr", "0.02"];
    run(&folder, &[&long[..], &["--save", "run.ckpt"]].concat());
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    // Fewer symbols than the first text has; the model keeps all nine.
    file(
        "other",
        &"as is a rose, a rose is ".replace(',', "").repeat(10),
    );
    file("unknown", &"a rose is not a rose ".repeat(10));
    let first_loss = |more: &[&str]| {
        let args = [
            &["--text", "other", "--steps", "1", "--eval-interval", "1"],
            more,
        ]
        .concat();
        let (lines, _) = run(&folder, &args);
        lines[0]["val_loss"].as_f64().unwrap()
    };
    let (fresh, loaded) = (first_loss(&[]), first_loss(&["--load", "run.ckpt"]));
    assert!(loaded < 0.6 * fresh, "{loaded} {fresh}");

    // The further training is saved, and resumed by its own checkpoint.
    let further = ["--text", "other", "--save", "further.ckpt"];
    run(&folder, &[&further[..], &["--load", "run.ckpt"]].concat());
    let (lines, _) = run(&folder, &["--text", "other", "--resume", "further.ckpt"]);
    assert_eq!(lines.len(), 1);

    for (args, reason) in [
        (
            &["--text", "unknown", "--load", "run.ckpt"][..],
            "run.ckpt: expected a text of the 9 symbols that its model has learnt, found 'n' (U+006E) in \
             unknown",
        ),
        (
            &[&long[..], &["--text", "other", "--resume", "run.ckpt"]].concat(),
            "another run: description",
        ),
        (
            &["--text", "other", "--load", "run.ckpt", "--width", "16"],
            "run.ckpt: weights: expected those of a transformer with 1 layers of width 16",
        ),
        (&["--text", "other", "--load", "none.ckpt"], "none.ckpt"),
    ] {
        refused(&tiny(&folder, args), reason);
    }
}

/// No tensor of the certified model depends on the context, but the bound by which its attention is divided
/// does.
#[test]
fn a_certified_model_keeps_its_context() {
    let folder = TempDir::new().unwrap();
    run(&folder, &["--model", "certified", "--save", "run.ckpt"]);
    let model = ["--model", "certified", "--layers", "1", "--width", "8"];
    let load = |context| {
        let more = ["--heads", "2", "--load", "run.ckpt", "--context", context];
        char_lm(&folder, &[&model[..], &more].concat())
    };
    succeeded(&load("8"));
    refused(&load("16"), "--context and others must be those of the run");
}
