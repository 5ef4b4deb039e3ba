//! The committed results are read by the subcommands that made them, and have the numbers of the chapters.

use super::*;

/// What the commands of `results/README.md` call in place of cargo: the program, which runs nothing.
const SHOW: &str = r#"set -e
cargo() {
    shift 5 # run --release -p papers --
    echo "$@"
    "$PROGRAM" "$@" --show
}
"#;

#[cfg(unix)]
#[test]
fn the_commands_of_the_results_find_every_cell_finished() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let document = std::fs::read_to_string(results.join("README.md")).unwrap();
    let blocks = document
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let script = blocks
        .fold(SHOW.to_owned(), |script, block| script + block)
        .replace("--data DIR", "--data .")
        .replace("papers/results", results.to_str().unwrap());
    let folder = TempDir::new().unwrap();
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &script])
        .env("PROGRAM", PROGRAM)
        .current_dir(&folder);
    let (out, _) = succeeded(&shell.output().unwrap());
    let mut command = "";
    for line in out.lines() {
        let row = line.starts_with("| ");
        match !row && line.contains(" --results ") {
            true => command = line,
            // A dash is a cell without a run, and "n=" a cell with fewer runs than asked for.
            false => assert!(
                !(row && (line.contains("| –") || line.contains("n=")))
                    && !line.contains("no cell is finished"),
                "{command}\n{line}"
            ),
        }
    }
}

#[test]
fn committed_results_are_shown() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    for (program, args, number) in [
        (
            "balance",
            "--table 2 --dataset cora --seeds 3",
            "79.6 ± 2.2",
        ),
        (
            "deep_attention",
            "--dataset cora --model gat --norm lipschitz --layers 15 --seeds 3",
            "76.3 ± 0.6",
        ),
        ("self_attention", "--table 1", "2.374"),
        (
            "oversmoothing",
            "--dataset cora --norm contra --layers 8 --s 1 --seeds 5",
            "74.7 ± 1.1, s=1 ",
        ),
        // Of other s there is one run.
        (
            "oversmoothing",
            "--table 3 --dataset cora --norm contra --layers 8 --seeds 5",
            "74.7 ± 1.1, s=1‡ (74.01 ± 0.64)",
        ),
        (
            "oversmoothing",
            "--table 3 --dataset cora --norm contra --layers 8 --seeds 1",
            "75.5, s=0.8 (74.01 ± 0.64)",
        ),
        ("vision", "--table 2 --depth 24 --seeds 3", "79.3 ± 2.1"),
        ("encoder", "--table 6 --task entailment --depth 24", "75.1"),
    ] {
        let folder = TempDir::new().unwrap();
        let file = results.join(format!("{program}.jsonl"));
        let mut args: Vec<&str> = args.split(' ').collect();
        args.extend(["--show", "--results", file.to_str().unwrap()]);
        let (out, _) = succeeded(&command(program, &folder, &args).output().unwrap());
        assert!(out.contains(number), "{program}: {out}");
    }
}

/// Lines of before the setting had features as they are on Chameleon, and rows that sum to one on Cora.
#[test]
fn lines_without_raw_features_keep_what_they_were() {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let whole = std::fs::read_to_string(results.join("oversmoothing.jsonl")).unwrap();
    let shown = |strip: bool| {
        let folder = TempDir::new().unwrap();
        let mut lines = String::new();
        for mut line in json(&whole) {
            let cell = line["cell"].as_object_mut().unwrap();
            let raw = cell.get("raw_features") == Some(&true.into());
            if (cell["dataset"] == "chameleon") != raw {
                continue;
            }
            if strip {
                cell.remove("raw_features");
            }
            lines += &format!("{line}\n");
        }
        std::fs::write(folder.path().join("old.jsonl"), lines).unwrap();
        let mut out = String::new();
        for options in ["--dataset cora", "--dataset chameleon --raw-features"] {
            let args = format!("{options} --norm none --seeds 2 --show --results old.jsonl");
            let args: Vec<&str> = args.split(' ').collect();
            out += &succeeded(&command("oversmoothing", &folder, &args).output().unwrap()).0;
        }
        out
    };
    let old = shown(true);
    assert_eq!(old, shown(false));
    assert!(old.contains("raw features") && old.contains(" ± "), "{old}");
}
