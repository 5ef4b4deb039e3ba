//! The examples as programs.

use emmy::init;
use emmy::lipschitz::joint::{Certificate, Network};
use emmy::nn::{Activation, Mlp};
use emmy::store::weights;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The program as cargo has built it beside this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let path = profile
        .join("examples")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "{} is not built: run `cargo test`, which builds the examples",
        path.display()
    );
    path
}

/// An example in its own folder, without data files of the user.
fn command(name: &str, folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(program(name));
    command
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", folder.path())
        .env("HOME", folder.path())
        .env_remove("EMMY_DATA");
    command.args(args);
    command
}

/// Its run.
fn run(name: &str, folder: &TempDir, args: &[&str]) -> Output {
    command(name, folder, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn succeeded(output: &Output) -> (String, String) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    (out, err)
}

#[track_caller]
fn refused(output: &Output, reason: &str) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success() && out.is_empty(), "{out}\n{err}");
    assert!(err.contains(reason), "{err}");
    assert!(!err.contains("panicked"), "{err}");
}

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    std::fs::read_to_string(path).unwrap()
}

/// README shows the last line that quickstart prints.
#[test]
fn quickstart_finds_most_of_the_club() {
    let output = Command::new(program("quickstart")).output().unwrap();
    let (out, _) = succeeded(&output);
    assert!(out.ends_with("96 % of the others found\n"), "{out}");
    let last = out.lines().last().unwrap();
    assert!(readme().contains(&format!("`{last}`")), "{last}");
}

/// README shows what ask prints.
#[test]
fn ask_prints_layers_laws_and_an_interval() {
    let output = Command::new(program("ask")).output().unwrap();
    let (out, _) = succeeded(&output);
    assert!(readme().contains(&format!("```text\n{out}```")), "{out}");
}

#[test]
fn check_holds_a_model_against_every_statement() {
    let (out, err) = succeeded(&Command::new(program("check")).output().unwrap());
    // The checks of the testing kit that take a model, and the attack in three norms.
    assert_eq!(out.matches(" statements hold").count(), 14, "{out}");
    assert!(err.is_empty() && !out.contains("fails"), "{out}\n{err}");
}

#[cfg(unix)]
#[test]
fn quickstart_ends_quietly_if_nobody_reads_on() {
    let mut child = Command::new(program("quickstart"));
    let mut child = child.stdout(std::process::Stdio::piped());
    child = child.stderr(std::process::Stdio::piped());
    let mut child = child.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        text(&output.stderr)
    );
}

/// The model on one page.
#[test]
fn microgpt_learns_names_in_a_thousand_steps() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&run("microgpt", &folder, &[]));
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].contains(" names, 4192 parameters; 1000 steps"),
        "{out}"
    );
    let loss = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let [first, last] = [1, 10].map(|k| loss(lines[k]));
    // The original has thousands of names and reaches 2.65; we have fewer names.
    assert!(last < 2.6 && first > last + 0.2, "{out}");
    let names = &lines[lines.len() - 10..];
    assert!(
        names
            .iter()
            .all(|name| name.chars().all(|c| c.is_ascii_lowercase())),
        "{out}"
    );

    std::fs::write(folder.path().join("names"), "anna\r\n\n otto \n").unwrap();
    let (out, _) = succeeded(&run("microgpt", &folder, &["names"]));
    let found = out.lines().rev().take(10);
    assert!(
        found.filter(|name| ["anna", "otto"].contains(name)).count() >= 8,
        "{out}"
    );
    std::fs::write(folder.path().join("names"), " \n").unwrap();
    refused(&run("microgpt", &folder, &["names"]), "a name per line");
    for (path, reason) in [("none", "none: "), ("/dev/zero", "not a regular file")] {
        let output = run("microgpt", &folder, &[path]);
        refused(&output, reason);
        assert!(!text(&output.stderr).contains('{'), "not a sentence");
    }
}

/// Refusals come before any work, so that all of them take less than a second.
#[test]
fn examples_print_their_usage_and_refuse_arguments_that_they_do_not_know() {
    let folder = TempDir::new().unwrap();
    for (name, surplus) in [
        ("balance", &["2", "3", "4"][..]),
        ("char_lm", &["text", "1", "other"]),
        ("check", &["--json", "--jsn"]),
        ("cora", &["--json", "other"]),
        ("laws", &["other"]),
        ("lipschitz", &["--networks", ".", "--jsn"]),
        ("microgpt", &["names", "other"]),
        ("robust", &["other"]),
        ("verify", &["net", "proof", "0", "other"]),
    ] {
        for flag in ["--help", "-h"] {
            let (out, err) = succeeded(&run(name, &folder, &[flag]));
            assert!(out.starts_with(name) && err.is_empty(), "{out}\n{err}");
        }
        refused(&run(name, &folder, &["--none"]), "--none");
        refused(&run(name, &folder, surplus), surplus.last().unwrap());
    }
}

/// The same keys as those of `papers -- cora --json`.
#[test]
fn cora_prints_an_object_per_run_and_draws_it() {
    let folder = TempDir::new().unwrap();
    let args = "--dataset cora-like --model gcn --epochs 3 --seeds 2 --json";
    let args: Vec<&str> = args.split(' ').collect();
    let (out, err) = succeeded(&run("cora", &folder, &args));
    let lines: Vec<serde_json::Value> = (out.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let keys = |k: usize| -> Vec<&str> {
        let object = lines[k].as_object().unwrap();
        object.keys().map(String::as_str).collect()
    };
    assert_eq!(lines.len(), 3);
    let of_a_run = "activation best_epoch dataset epochs final_loss init layers max_delta model \
                    ms_per_epoch seed stopped test_acc val_acc";
    let of_all = "dataset diverged init layers model ms_per_epoch seeds summary test_acc_mean \
                  test_acc_std";
    assert_eq!(keys(1).join(" "), of_a_run);
    assert_eq!(keys(2).join(" "), of_all);
    assert!(lines[0]["max_delta"].as_f64().unwrap() < 1e-4, "{out}");
    for seed in 0..2 {
        let name = format!("figures/cora-like-gcn-seed{seed}.svg");
        assert!(err.contains(&name), "{err}");
        let figure = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(figure.starts_with("<svg") && figure.matches(" L").count() == 9);
    }
}

#[test]
fn cora_names_the_option_that_it_refuses() {
    let folder = TempDir::new().unwrap();
    for option in ["--epochs", "--seeds"] {
        for number in ["ten", "0", "-1"] {
            let reason = format!("{option}: expected a number above 0, found {number}");
            refused(&run("cora", &folder, &[option, number]), &reason);
        }
    }
    // Before the data set is looked for.
    let args = ["--model", "gta", "--data", "nowhere"];
    refused(
        &run("cora", &folder, &args),
        "--model: expected gcn, gat or gatv2, found gta",
    );
    assert!(!folder.path().join("figures").exists());
}

/// Only who says nothing about data gets others than Cora.
#[test]
fn cora_takes_a_generated_graph_if_nothing_says_where_cora_is() {
    let folder = TempDir::new().unwrap();
    let short = ["--model", "GCN", "--epochs", "2", "--seeds", "2"];
    let (out, err) = succeeded(&run("cora", &folder, &short));
    assert!(err.contains("training on the generated cora-like"), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].contains("relative δ of the conservation laws"));
    for line in &lines {
        let (_, rest) = line.split_once("test accuracy ").unwrap();
        let percent: f64 = rest.split([' ', ',']).next().unwrap().parse().unwrap();
        assert!((10.0..100.0).contains(&percent), "{out}");
    }
    assert!(lines[2].starts_with("mean of 2 seeds: ") && lines[2].ends_with(" %"));

    std::fs::write(folder.path().join("file"), "").unwrap();
    for args in [
        ["--data", "nowhere"],
        ["--data", "file"],
        ["--dataset", "Cora"],
    ] {
        let output = run("cora", &folder, &args);
        refused(&output, "Looked in:\n");
        let place = if args[0] == "--data" { args[1] } else { "emmy" };
        refused(&output, place);
    }
    let mut command = command("cora", &folder, &short);
    for (folder, found) in [("nowhere", false), ("", true)] {
        let output = command.env("EMMY_DATA", folder).output().unwrap();
        match found {
            true => drop(succeeded(&output)),
            false => refused(&output, "nowhere"),
        }
    }
}

#[test]
fn balance_compares_two_initialisations() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&run("balance", &folder, &["3", "4"]));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[1].starts_with("xavier ") && lines[2].starts_with("bal-o "));
    for line in &lines[1..] {
        let delta: f64 = line.split_whitespace().last().unwrap().parse().unwrap();
        assert!(delta < 1e-4 && line.contains(" % "), "{line}");
    }
    for wrong in [&["many"][..], &["0"], &["1", "0"]] {
        let reason = format!("numbers above 0, found {}", wrong.last().unwrap());
        refused(&run("balance", &folder, wrong), &reason);
    }
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn laws_finds_what_is_declared_and_three_more() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&run("laws", &folder, &[]));
    let line = |start: &str| out.lines().find(|line| line.starts_with(start)).unwrap();
    assert!(line("perceptron with ReLU").contains("declared 9, found 9, at most 9"));
    assert!(line("perceptron with tanh").contains("declared 0, found 0, at most 0"));
    assert!(line("x + W x").contains("declared 0, found 3, at most 3"));
    assert_eq!(out.matches("not declared").count(), 3, "{out}");
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn lipschitz_is_smaller_if_it_is_a_part_of_the_loss() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&run("lipschitz", &folder, &[]));
    let upper: Vec<f64> = (out.lines())
        .filter_map(|line| line.strip_prefix("constant of the network, p = 2: "))
        .map(|interval| interval.trim_end_matches(']').rsplit(' ').next().unwrap())
        .map(|upper| upper.parse().unwrap())
        .collect();
    assert!(upper.len() == 2 && upper[1] < 0.5 * upper[0], "{out}");
    assert!(out.matches("test accuracy 100.0 %").count() == 2, "{out}");
}

/// The constant is proven, and more points are certified than without it.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn robust_certifies_more_at_the_constant_one() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&run("robust", &folder, &[]));
    let numbers = |start: &str| {
        let line = out.lines().find(|line| line.starts_with(start)).unwrap();
        ["constant ", "accuracy ", "0.2: "].map(|before| -> f64 {
            let (_, after) = line.split_once(before).unwrap();
            after.split([',', ' ']).next().unwrap().parse().unwrap()
        })
    };
    let ([_, accuracy, safe], [constant, kept_accuracy, kept_safe]) =
        (numbers("free"), numbers("kept at 1"));
    assert!((constant - 1.0).abs() < 1e-3, "{out}");
    assert!(
        kept_accuracy > accuracy - 2.0 && kept_safe > safe + 20.0,
        "{out}"
    );
}

#[test]
fn char_lm_writes_with_the_characters_of_its_text() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("text"), "to and fro, ".repeat(200)).unwrap();
    let (out, _) = succeeded(&run("char_lm", &folder, &["text", "20"]));
    assert!(out.contains("step    20: validation loss "), "{out}");
    let written = out.lines().last().unwrap();
    assert!(written.chars().count() > 250, "{out}");
    assert!(written.chars().all(|c| "to andfr,".contains(c)), "{out}");
    refused(&run("char_lm", &folder, &["text", "none"]), "above 0");
}

/// The weights of a chain in a file, and its certificate in another.
fn certified(folder: &TempDir) -> (Network, Certificate) {
    let rng = &mut init::rng(3);
    let net = Mlp::<f64>::new(&[4, 7, 6, 3], Activation::Relu, true, rng);
    weights::save(folder.path().join("net.safetensors"), &net, &()).unwrap();
    let maps = net.layers.iter().map(|layer| layer.weight.to_owned());
    let maps = maps.map(|w| w.into_owned().into_dimensionality().unwrap());
    let network = Network::chain(maps.collect(), [0.0, 1.0]).unwrap();
    let certificate = network.certify().unwrap();
    (network, certificate)
}

/// The chain of the file, as an object with both ends; a file that is no chain is left out, by name.
#[test]
fn lipschitz_prints_the_intervals_of_a_folder_of_networks() {
    let folder = TempDir::new().unwrap();
    let (_, certificate) = certified(&folder);
    std::fs::write(folder.path().join("other.safetensors"), "nothing").unwrap();
    let (out, err) = succeeded(&run("lipschitz", &folder, &["--networks", ".", "--json"]));
    assert!(err.contains("other.safetensors"), "{err}");
    let found: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&out).unwrap();
    let mut keys: Vec<&str> = found.keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expected = ["lower", "net", "product", "seconds", "upper", "verified"];
    assert_eq!(keys, expected);
    let number = |key: &str| found[key].as_f64().unwrap();
    assert_eq!(found["net"], "net");
    assert_eq!(found["verified"], true);
    assert_eq!(number("upper"), certificate.lipschitz);
    assert!(0.5 * number("upper") < number("lower") && number("lower") <= number("upper"));
    assert!(number("upper") < number("product"));
    refused(&run("lipschitz", &folder, &["--networks"]), "--json");
}

/// Both verifiers, with this certificate: what each says. That in Python is left out where NumPy is not
/// there.
fn verifiers(folder: &TempDir, certificate: &Certificate, more: &[&str]) -> Vec<Output> {
    std::fs::write(folder.path().join("proof.json"), certificate.to_json()).unwrap();
    let args = [&["net.safetensors", "proof.json"], more].concat();
    let mut all = vec![run("verify", folder, &args)];
    let python = |args: &[&str]| {
        let mut command = Command::new("python3");
        command.current_dir(folder.path()).args(args).output()
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/verify.py");
    match python(&["-c", "import numpy"]) {
        Ok(output) if output.status.success() => {
            all.push(python(&[&[script], &args[..]].concat()).unwrap());
        }
        _ => eprintln!("skipped: docs/verify.py needs NumPy"),
    }
    all
}

#[test]
fn a_certificate_is_verified_by_programs_that_share_no_code_with_the_search() {
    let folder = TempDir::new().unwrap();
    let (network, good) = certified(&folder);
    for output in verifiers(&folder, &good, &[]) {
        let (out, _) = succeeded(&output);
        assert!(out.starts_with("verified: |f(x) - f(y)| <= "), "{out}");
    }
    let margin = network.one_output(1).certify().unwrap();
    for output in verifiers(&folder, &margin, &["1"]) {
        succeeded(&output);
    }
    let mut small = good.clone();
    small.lipschitz *= 1.0 - 1e-9;
    let mut other = good.clone();
    other.multipliers[1][2] *= 1.5;
    let mut digest = good.clone();
    digest.weights = good.weights.replace(char::is_numeric, "0");
    for wrong in [small, other, digest, margin] {
        for output in verifiers(&folder, &wrong, &[]) {
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(!output.status.success() && out.is_empty(), "{out}\n{err}");
        }
    }
    for few in [&[][..], &["net.safetensors"]] {
        refused(
            &run("verify", &folder, few),
            "verify WEIGHTS CERTIFICATE [OUTPUT]: ",
        );
    }
}
