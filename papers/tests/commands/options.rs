//! The effects of the options of `cora`.

use super::*;

#[test]
fn a_run_among_several_is_the_run_of_its_seed_alone() {
    let folder = TempDir::new().unwrap();
    let run = |seed: &str, seeds: &str| {
        let args = ["--dataset", "karate", "--epochs", "4", "--json"];
        let more = ["--seed", seed, "--seeds", seeds];
        untimed(&succeeded(&cora(&folder, &[&args[..], &more].concat())).0)
    };
    let several = run("5", "2");
    assert_eq!(several[0], run("5", "1")[0]);
    assert_eq!(several[1], run("6", "1")[0]);
    assert_ne!(several[0]["final_loss"], several[1]["final_loss"]);
}

#[test]
fn every_option_of_model_and_training_makes_a_difference() {
    let folder = TempDir::new().unwrap();
    let loss = |more: &[&str]| {
        let args = ["--dataset", "karate", "--epochs", "4", "--json"];
        let (out, _) = succeeded(&cora(&folder, &[&args[..], more].concat()));
        json(&out)[0]["final_loss"].as_f64().unwrap()
    };
    let of = |model: &str, options: &[&str]| {
        let args: Vec<&str> = options.iter().flat_map(|o| o.split(' ')).collect();
        loss(&[&["--model", model][..], &args].concat())
    };
    let mut losses: Vec<f64> = [
        "--lr 0.02",
        "--weight-decay 0.1",
        "--optimizer sgd",
        "--optimizer adamw",
        "--optimizer muon",
        "--dropout 0.2",
        "--hidden 5",
        "--heads 3",
        "--layers 3",
        "--activation identity",
        "--activation relu",
        "--activation leaky-relu",
        "--activation gelu",
        "--activation tanh",
        "--no-bias",
        "--float f64",
        "--seed 1",
        // Some differ only in hidden layers.
        "--layers 3 --init xavier",
        "--layers 3 --init xavier-zero",
        "--layers 3 --init bal-x",
        "--layers 3 --init bal-o",
        "--layers 3 --init ll-ortho",
        "--layers 3 --init identity",
        "--layers 3 --init identity-bal",
        "--layers 3 --init ll-identity",
        "--layers 3 --init ll-identity-bal",
    ]
    .iter()
    .map(|option| of("gat", &[option]))
    .collect();
    losses.push(of("gat", &[]));
    losses.push(of("gcn", &[]));
    losses.push(of("gatv2", &[]));
    losses.push(of("gatv2", &["--share-weights"]));
    losses.sort_by(f64::total_cmp);
    let all = losses.len();
    losses.dedup();
    assert_eq!(losses.len(), all, "{losses:?}");
}

#[test]
fn the_initialisation_is_said_with_every_run() {
    let folder = TempDir::new().unwrap();
    let run = |more: &[&str]| {
        let args = ["--dataset", "karate", "--epochs", "2", "--json"];
        untimed(&succeeded(&cora(&folder, &[&args[..], more].concat())).0)
    };
    for line in run(&["--init", "bal-o"]) {
        assert_eq!(line["init"], "bal-o");
    }
    for line in run(&[]) {
        assert!(line["init"].is_null());
    }
    // A scheme with two names is reported under one.
    assert_eq!(run(&["--init", "ll-ortho-bal"]), run(&["--init", "bal-o"]));
}

#[test]
fn a_run_ends_below_the_loss_threshold() {
    let folder = TempDir::new().unwrap();
    let args = ["--dataset", "karate", "--model", "gcn", "--json"];
    let run = |more: &[&str]| {
        let (out, _) = succeeded(&cora(&folder, &[&args[..], more].concat()));
        let line = &json(&out)[0];
        let loss = line["final_loss"].as_f64().unwrap();
        (line["epochs"].as_u64().unwrap(), loss)
    };
    let (epochs, loss) = run(&["--loss-threshold", "0.5"]);
    assert!(1 < epochs && epochs < 200 && loss < 0.5, "{epochs}, {loss}");
    let before = (epochs - 1).to_string();
    let (_, loss) = run(&["--epochs", &before]);
    assert!(loss >= 0.5, "{loss}");
}

#[test]
fn the_split_is_the_one_asked_for() {
    let folder = TempDir::new().unwrap();
    let archive = files::npz::archive(&files::npz::small_set());
    std::fs::write(folder.path().join("texas.npz"), archive).unwrap();
    let loss = |split: &str| {
        let args = ["--data", ".", "--dataset", "texas", "--dropout", "0"];
        let more = ["--epochs", "1", "--json", "--split", split];
        let (out, _) = succeeded(&cora(&folder, &[&args[..], &more].concat()));
        json(&out)[0]["final_loss"].as_f64().unwrap()
    };
    // The masks of the small set move on from split to split; after three splits they repeat.
    assert_ne!(loss("0"), loss("1"));
    assert_eq!(loss("0"), loss("3"));
}

#[test]
fn patience_ends_a_run() {
    let folder = TempDir::new().unwrap();
    let args = ["--dataset", "karate", "--epochs", "300", "--json"];
    let (out, _) = succeeded(&cora(&folder, &[&args[..], &["--patience", "4"]].concat()));
    let line = &json(&out)[0];
    let [epochs, best] = ["epochs", "best_epoch"].map(|key| line[key].as_u64().unwrap());
    assert!(epochs < 300 && epochs == best + 4, "{line}");
}

/// The training loss of the first epoch of a GCN without dropout.
fn first_loss(set: &Dataset, x: &Csr<f32>) -> f64 {
    let config = GraphNetConfig {
        dropout: 0.0,
        ..GraphNetConfig::gcn(set.feature_count(), set.classes)
    };
    let adjacency = config.neighbourhood(&set.graph);
    let tape = Tape::new();
    let net = GraphNet::new(config, 0).unwrap();
    let logits = net.forward(&Pass::train(&tape, &net, 0), tape.sparse(x), &adjacency);
    let loss = logits.cross_entropy(&set.labels, Some(&set.splits[0].train));
    f64::from(loss.item())
}

#[test]
fn citation_sets_are_learnt_from_rows_that_sum_to_one_and_the_others_as_published() {
    let folder = TempDir::new().unwrap();
    let mut members = files::npz::small_set();
    let words = [1.0_f32, 1.0, 0.0, 0.0, 1.0, 1.0].repeat(3);
    let words: Vec<u8> = words.iter().flat_map(|x| x.to_le_bytes()).collect();
    members[0].1 = files::npz::npy("<f4", false, "(6, 3)", &words);
    let archive = files::npz::archive(&members);
    std::fs::write(folder.path().join("texas.npz"), archive).unwrap();
    let set = |name: &str| {
        let options = Options {
            folder: Some(folder.path().to_path_buf()),
            ..Options::default()
        };
        emmy::data::load(name, &options).unwrap()
    };
    for (name, normalised) in [("texas", false), ("cora-like", true)] {
        let args = ["--data", ".", "--dataset", name, "--model", "gcn"];
        let more = ["--dropout", "0", "--epochs", "1", "--json"];
        let (out, _) = succeeded(&cora(&folder, &[&args[..], &more].concat()));
        let found = json(&out)[0]["final_loss"].as_f64().unwrap();
        let set = set(name);
        let (rows, raw) = (set.normalized_features(), set.raw_features());
        let (rows, raw) = (first_loss(&set, &rows), first_loss(&set, &raw));
        assert!((rows - raw).abs() > 1e-4, "{name}: {rows}, {raw}");
        let expected = if normalised { rows } else { raw };
        approx::assert_relative_eq!(found, expected, epsilon = 1e-12);
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let folder = TempDir::new().unwrap();
    for model in ["gcn", "gat", "gatv2"] {
        let run = |threads: &str, save: &str| {
            let args = [
                "--dataset",
                "cora-like",
                "--model",
                model,
                "--epochs",
                "3",
                "--json",
                "--threads",
                threads,
                "--save",
                save,
            ];
            untimed(&succeeded(&cora(&folder, &args)).0)
        };
        let one = run("1", &format!("{model}-1.ckpt"));
        for threads in ["2", "4"] {
            let save = format!("{model}-{threads}.ckpt");
            assert_eq!(run(threads, &save), one, "{model} on {threads} threads");
        }
    }
}

#[test]
fn scores_are_normalised_where_there_are_some() {
    let folder = TempDir::new().unwrap();
    let run = |more: &[&str]| {
        let args = [
            "--dataset",
            "karate",
            "--epochs",
            "3",
            "--json",
            "--summary",
        ];
        let (out, err) = succeeded(&cora(&folder, &[&args[..], more].concat()));
        let run = json(&out).remove(0);
        assert_eq!(run["model"], more[1]);
        (run["final_loss"].as_f64().unwrap(), err)
    };
    let bound = "Lipschitz constant at the start, p = 2: [";
    for model in ["gat", "gt"] {
        let (plain, said) = run(&["--model", model]);
        assert!(said.contains("Lipschitz constant: no bound. "), "{said}");
        let (normalised, said) = run(&["--model", model, "--score-norm", "lipschitz"]);
        assert!(said.contains(bound), "{model}: {said}");
        assert_ne!(plain, normalised, "{model}");
    }
    assert!(run(&["--model", "gcn"]).1.contains(bound));
    // Of the network that is trained: with its start and its seed.
    let of = |more: &[&str]| {
        let said = run(&[&["--model", "gcn"], more].concat()).1;
        let line = said.lines().find(|line| line.contains(bound));
        line.expect("the constant").to_owned()
    };
    let usual = of(&[]);
    assert_ne!(of(&["--init", "bal-o"]), usual);
    assert_ne!(of(&["--seed", "1"]), usual);
    refused(
        &cora(&folder, &["--model", "gatv2", "--score-norm", "lipschitz"]),
        "--score-norm: expected --model gat or gt, found gatv2",
    );
    // The former name of the graph transformer.
    let old = [
        "--dataset",
        "karate",
        "--epochs",
        "1",
        "--model",
        "transformer",
        "--json",
    ];
    let (out, _) = succeeded(&cora(&folder, &old));
    assert_eq!(json(&out)[0]["model"], "gt");
}

#[test]
fn a_summary_is_a_table_of_the_layers_on_the_data() {
    let folder = TempDir::new().unwrap();
    let args = ["--dataset", "karate", "--epochs", "1", "--summary"];
    let (out, _) = succeeded(&cora(&folder, &args));
    for row in [
        "layer       type      output    parameters",
        "            GraphNet  [34, 2]         2502",
        "  layers.0  GatConv   [34, 64]        2368",
        "  layers.1  GatConv   [34, 2]          134",
    ] {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let found = out.lines().any(|line| words(line) == words(row));
        assert!(found, "{row}: {out}");
    }
    assert!(
        out.contains("\nmemory: at most 0.01 GiB to train it, estimated; this machine has "),
        "{out}"
    );
    let (out, err) = succeeded(&cora(&folder, &[&args[..], &["--json"]].concat()));
    assert_eq!(json(&out).len(), 2);
    assert!(err.contains("layers.1") && err.contains("total"), "{err}");
    let more = ["--model", "sage", "--layers", "3"];
    let (out, _) = succeeded(&cora(&folder, &[&args[..], &more].concat()));
    assert_eq!(out.matches("SageConv").count(), 3, "{out}");
    refused(
        &cora(&folder, &["--model", "sage", "--heads", "2"]),
        "--heads: expected a model with attention, found sage",
    );
}

/// Every norm of nodes and residuals change the training; `--watch` shows the layers, and changes nothing.
#[test]
fn norms_residuals_and_watching_layers() {
    let folder = TempDir::new().unwrap();
    let run = |more: &[&str]| {
        let args = [
            "--dataset",
            "karate",
            "--epochs",
            "10",
            "--model",
            "gcn",
            "--layers",
            "4",
            "--json",
        ];
        let (out, err) = succeeded(&cora(&folder, &[&args[..], more].concat()));
        (json(&out)[0]["final_loss"].as_f64().unwrap(), err)
    };
    let mut losses = vec![run(&[]).0];
    for norm in ["layer", "pair", "pair-si", "contra", "contra-v2", "dgn"] {
        losses.push(run(&["--norm", norm]).0);
    }
    for more in [
        &["--residual"][..],
        &["--residual", "2"],
        &["--norm", "contra", "--norm-scale", "0.9"],
        &["--norm", "pair", "--norm-scale", "3"],
    ] {
        losses.push(run(more).0);
    }
    let mut sorted = losses.clone();
    sorted.sort_by(f64::total_cmp);
    assert!(
        sorted.windows(2).all(|pair| pair[0] != pair[1]),
        "{losses:?}"
    );

    let (watched, said) = run(&["--watch", "--norm", "contra"]);
    assert_eq!(watched, losses[4]);
    for part in [
        "at the start",
        "epoch 10: effective rank",
        "at the best epoch",
    ] {
        assert!(said.contains(part), "{said}");
    }
    refused(
        &cora(&folder, &["--norm", "layer", "--norm-scale", "2"]),
        "--norm-scale: expected --norm pair, pair-si, contra, contra-v2 or dgn, found --norm layer",
    );
    refused(
        &cora(&folder, &["--norm", "contra", "--layers", "1"]),
        "--norm",
    );
}

/// Options that people type from habit.
#[test]
fn options_of_habit_are_understood() {
    let folder = TempDir::new().unwrap();
    let karate = ["--dataset", "karate", "--epochs", "2", "--json"];
    let run = |more: &[&str]| cora(&folder, &[&karate[..], more].concat());
    succeeded(&run(&["--plot", "none", "--device", "cpu"]));
    assert!(!folder.path().join("figures").exists());
    refused(&run(&["--device", "cuda"]), "[possible values: cpu]");
    let (help, _) = succeeded(&cora(&folder, &["--help"]));
    assert!(help.contains("[alias: --plot]"), "{help}");
    // A negative number is a wrong value, not an unknown option.
    for (program, option) in [
        ("cora", "--epochs"),
        ("char_lm", "--steps"),
        ("balance", "--seeds"),
    ] {
        let output = command(program, &folder, &[option, "-5"]).output().unwrap();
        refused(&output, "invalid value '-5' for");
    }
    refused(
        &cora(&folder, &["--lr", "-1"]),
        "expected a number, at least 0, found -1",
    );
}

/// A graph of one's own, an edge list and a table in CSV, is trained on like any other; features are taken
/// as they are, and what is wrong in a file is told with its line.
#[test]
fn a_graph_in_csv_is_trained_on() {
    let folder = TempDir::new().unwrap();
    let karate = emmy::data::karate();
    let (mut edges, mut nodes) = (
        "from,to\n".to_owned(),
        "member,leads,joins,faction\n".to_owned(),
    );
    let pattern = karate.graph.pattern();
    for (row, column) in pattern.rows_of().iter().zip(pattern.indices()) {
        edges += &format!("m{column},m{row}\n");
    }
    for (i, faction) in karate.labels.iter().enumerate() {
        let [leads, joins] = [i == 0, i == 33].map(u8::from);
        nodes += &format!("m{i},{leads},{joins},faction {faction}\n");
    }
    std::fs::write(folder.path().join("edges.csv"), &edges).unwrap();
    std::fs::write(folder.path().join("nodes.csv"), &nodes).unwrap();
    let files = ["--edges", "edges.csv", "--nodes", "nodes.csv"];
    let labelled = [&files[..], &["--label", "faction"]].concat();
    let how = [
        "--model", "gcn", "--lr", "0.05", "--epochs", "100", "--json",
    ];
    let (out, _) = succeeded(&cora(&folder, &[&labelled[..], &how].concat()));
    let run = &json(&out)[0];
    assert_eq!(run["dataset"], "nodes.csv");
    // 34 members: 20 train, 6 validate, 8 test.
    assert!(run["test_acc"].as_f64().unwrap() >= 0.75, "{run}");
    assert!(run["max_delta"].as_f64().unwrap() < 1e-3, "{run}");

    let without = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    std::fs::write(folder.path().join("edges.csv"), without(&edges)).unwrap();
    std::fs::write(folder.path().join("nodes.csv"), without(&nodes)).unwrap();
    let headless = [&files[..], &["--no-header", "--directed"]].concat();
    let (again, _) = succeeded(&cora(&folder, &[&headless[..], &how].concat()));
    // Both directions are in the list.
    assert_eq!(json(&again)[0]["test_acc"], run["test_acc"]);

    let output = cora(&folder, &[&labelled[..], &how].concat());
    let rule = "nodes.csv: line 1: expected a column \"faction\" with the labels";
    refused(&output, rule);
    for wrong in [
        &files[..2],
        &files[2..],
        &[&files[..], &["--dataset", "karate"]].concat(),
    ] {
        assert_eq!(cora(&folder, wrong).status.code(), Some(2), "{wrong:?}");
    }
}
