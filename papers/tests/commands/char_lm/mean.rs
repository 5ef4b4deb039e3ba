//! The mean of several certified models.

use super::*;

const CERTIFIED: [&str; 2] = ["--model", "certified"];

/// Members of the tiny model with these seeds, in `SEED.ckpt`.
fn train(folder: &TempDir, seeds: &[&str]) -> Vec<Value> {
    let member = |seed: &&str| {
        let file = format!("{seed}.ckpt");
        let args = [&CERTIFIED[..], &["--seed", seed, "--save", &file]].concat();
        run(folder, &args).0.pop().unwrap()
    };
    seeds.iter().map(member).collect()
}

fn mean(folder: &TempDir, files: &[&str], more: &[&str]) -> Output {
    tiny(
        folder,
        &[&CERTIFIED[..], &["--mean-of"], files, more].concat(),
    )
}

#[test]
fn the_mean_of_models_predicts_with_a_smaller_constant() {
    let folder = TempDir::new().unwrap();
    let alone = train(&folder, &["0", "1"]);
    let evaluated = |files: &[&str]| {
        let output = mean(&folder, files, &[]);
        let (out, err) = succeeded(&output);
        let [summary] = &json(&out)[..] else {
            panic!("one object: {out}");
        };
        (summary.clone(), err)
    };
    let number = |line: &Value, key: &str| line[key].as_f64().unwrap();

    // The mean of one model is this model.
    let (one, _) = evaluated(&["1.ckpt"]);
    for key in [
        "train_loss",
        "val_loss",
        "val_accuracy",
        "lipschitz_upper",
        "lipschitz_lower",
        "certified_radius",
    ] {
        assert_eq!(one[key], alone[1][key], "{key}");
    }
    assert_eq!((&one["members"], &one["steps"]), (&1.into(), &10.into()));

    let (both, err) = evaluated(&["0.ckpt", "1.ckpt"]);
    assert_eq!((&both["members"], &both["steps"]), (&2.into(), &20.into()));
    assert!(both["best_step"].is_null() && both["max_delta"].is_null());
    let parameters = number(&alone[0], "parameters") + number(&alone[1], "parameters");
    assert_eq!(number(&both, "parameters"), parameters);
    // Cross-entropy is convex in the logits.
    let mean = (number(&alone[0], "val_loss") + number(&alone[1], "val_loss")) / 2.0;
    assert!(number(&both, "val_loss") < mean, "{both}");
    let upper = number(&both, "lipschitz_upper") * 2f64.sqrt();
    assert!(1.99 < upper && upper <= 2.0, "{both}");
    assert!(number(&both, "lipschitz_lower") <= number(&both, "lipschitz_upper"));
    for seed in 0..2 {
        assert!(
            err.contains(&format!("{seed}.ckpt: seed {seed}, validation")),
            "{err}"
        );
    }
    assert!(err.contains("mean of 2 trained models"), "{err}");
    // The order of the files changes only the rounding.
    let (turned, _) = evaluated(&["1.ckpt", "0.ckpt"]);
    let [a, b] = [&both, &turned].map(|line| number(line, "val_loss"));
    assert!((a - b).abs() < 1e-5 * a, "{a} {b}");
}

#[test]
fn members_of_other_runs_are_refused() {
    let folder = TempDir::new().unwrap();
    train(&folder, &["0", "1"]);
    let whole = std::fs::read(folder.path().join("1.ckpt")).unwrap();
    std::fs::write(folder.path().join("short.ckpt"), &whole[..whole.len() - 9]).unwrap();
    for (files, more, reason) in [
        (
            &["0.ckpt", "0.ckpt"][..],
            &[][..],
            "0.ckpt: seed: expected another for each member, found 0",
        ),
        (
            &["0.ckpt"],
            &["--lr", "0.5"],
            "0.ckpt: checkpoint of another run",
        ),
        (
            &["0.ckpt"],
            &["--window", "2"],
            "0.ckpt: weights: expected those of such a run, found checkpoint of another model",
        ),
        (&["0.ckpt", "short.ckpt"], &[], "short.ckpt"),
        (&["0.ckpt", "2.ckpt"], &[], "2.ckpt"),
        (&["0.ckpt"], &["--float", "f64"], "f64"),
    ] {
        refused(&mean(&folder, files, more), reason);
    }
}
