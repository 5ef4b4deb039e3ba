//! Runs that are saved, killed and resumed.

use super::*;

#[test]
fn a_run_saved_and_resumed_ends_in_the_same_bits() {
    let folder = TempDir::new().unwrap();
    let load = |name: &str| {
        let mut state: TrainState<f32> = store::load::<f32, _>(&folder.path().join(name)).unwrap();
        state
            .history
            .records
            .iter_mut()
            .for_each(|record| record.ms = 0.0);
        state
    };
    let options = ["--dropout", "0.2", "--schedule", "fixed", "--seed", "3"];
    let run = |more: &[&str]| {
        let (lines, err) = run(&folder, &[&options[..], more].concat());
        (lines, written(&err))
    };
    let (whole, sample) = run(&["--steps", "22", "--save", "whole.ckpt"]);
    run(&["--steps", "8", "--save", "half.ckpt"]);
    let (rest, resumed) = run(&[
        "--steps",
        "22",
        "--resume",
        "half.ckpt",
        "--save",
        "half.ckpt",
    ]);
    assert!(load("half.ckpt") == load("whole.ckpt"));
    assert_eq!(resumed, sample);
    // The two earlier evaluations are not repeated.
    assert_eq!(rest[..rest.len() - 1], whole[2..whole.len() - 1]);
    for key in ["train_loss", "val_loss", "best_step", "steps", "max_delta"] {
        assert_eq!(
            rest.last().unwrap()[key],
            whole.last().unwrap()[key],
            "{key}"
        );
    }
    // Once more, nothing is left to do.
    let (again, resumed) = run(&["--steps", "22", "--resume", "whole.ckpt"]);
    assert_eq!((again.len(), resumed), (1, sample));
    assert_eq!(again[0]["max_delta"], whole.last().unwrap()["max_delta"]);

    for (more, reason) in [
        (
            &["--steps", "30", "--resume", "whole.ckpt"][..],
            "evaluation 6: expected after 24 steps, found after 22",
        ),
        (
            &[
                "--steps",
                "22",
                "--resume",
                "whole.ckpt",
                "--eval-interval",
                "11",
            ],
            "evaluation 1",
        ),
        (
            &["--steps", "22", "--resume", "whole.ckpt", "--lr", "0.5"],
            "learning rate 0.5",
        ),
        (
            &["--steps", "22", "--resume", "whole.ckpt", "--model", "l2"],
            "another run: description",
        ),
    ] {
        refused(&tiny(&folder, &[&options[..], more].concat()), reason);
    }
}

#[test]
fn a_killed_run_resumes_to_the_same_bits() {
    let folder = TempDir::new().unwrap();
    let long = ["--steps", "600", "--eval-interval", "20"];
    let (_, whole) = run(&folder, &[&long[..], &["--save", "whole.ckpt"]].concat());
    let path = folder.path().join("killed.ckpt");
    // The run is killed when the first checkpoint is there, then again and again until a run reaches its end.
    let mut kills = 0;
    loop {
        let resume = match path.exists() {
            true => &["--resume", "killed.ckpt"][..],
            false => &[],
        };
        let before = path.exists().then(|| std::fs::read(&path).unwrap());
        let args: Vec<&str> = (TINY[..10].iter().copied())
            .chain([
                "--eval-batches",
                "3",
                "--figures",
                "none",
                "--json",
                "--text",
                "text",
            ])
            .chain(long)
            .chain(["--save", "killed.ckpt"])
            .chain(resume.iter().copied())
            .collect();
        let mut process = command("char_lm", &folder, &args);
        process.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = process.spawn().unwrap();
        loop {
            let moved = path.exists() && before != Some(std::fs::read(&path).unwrap());
            if process.try_wait().unwrap().is_some() || (moved && kills < 3) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if process.try_wait().unwrap().is_none() {
            kills += 1;
            process.kill().unwrap();
            process.wait().unwrap();
            continue;
        }
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(written(&text(&output.stderr)), written(&whole));
        break;
    }
    let load = |name: &str| {
        let mut state: TrainState<f32> = store::load::<f32, _>(&folder.path().join(name)).unwrap();
        state
            .history
            .records
            .iter_mut()
            .for_each(|record| record.ms = 0.0);
        state
    };
    assert!(kills > 0 && load("killed.ckpt") == load("whole.ckpt"));
}
