//! `cora` continues a saved run.

use super::*;

#[test]
fn a_run_saved_and_resumed_ends_where_an_unbroken_one_does() {
    let folder = TempDir::new().unwrap();
    for optimizer in ["adam", "sgd", "adamw", "muon"] {
        let start = |more: &[&str]| {
            let args = ["--dataset", "karate", "--optimizer", optimizer];
            cora(
                &folder,
                &[&args[..], &["--seed", "3", "--json"], more].concat(),
            )
        };
        let run = |more: &[&str]| untimed(&succeeded(&start(more)).0);
        let whole = run(&["--epochs", "12"]);
        assert!(whole[0]["max_delta"].as_f64().unwrap() > 0.0);
        run(&["--epochs", "5", "--save", "half.ckpt"]);
        let resumed = run(&[
            "--epochs",
            "12",
            "--resume",
            "half.ckpt",
            "--save",
            "half.ckpt",
        ]);
        assert_eq!(resumed, whole, "{optimizer}");
        let again = run(&["--epochs", "12", "--resume", "half.ckpt"]);
        assert_eq!(again, whole, "{optimizer}");
        for (option, value, reason) in [
            ("--hidden", "5", "another run: description"),
            ("--lr", "0.5", "learning rate 0.5"),
            ("--init", "bal-x", "initialisation bal-x"),
        ] {
            refused(&start(&["--resume", "half.ckpt", option, value]), reason);
        }
    }
}
