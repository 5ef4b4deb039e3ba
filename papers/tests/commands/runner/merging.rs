//! Merging of several results files, and runs that are continued.

use super::{Measured, Toy, toy};
use papers::support::paper::cell::Finished;
use papers::support::paper::merge::{Conflict, Family, merge};
use papers::support::paper::pool::{self, Spreading};
use papers::support::paper::results::{Lines, Results};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tempfile::TempDir;

fn finished(cell: Toy, value: f64, seconds: f64) -> Finished<Toy> {
    Finished {
        cell,
        outcome: Measured { value },
        seconds,
        threads: 1,
        date: String::new(),
        machine: String::new(),
    }
}

fn lines(path: &str, runs: Vec<Finished<Toy>>) -> Lines<Toy> {
    Lines {
        path: path.into(),
        runs,
    }
}

/// Two files that agree on a cell, apart from the time it took, and disagree on another one.
fn files() -> Vec<Lines<Toy>> {
    let first = vec![
        finished(toy(1, 0), 0.5, 1.0),
        finished(toy(1, 1), 0.25, 1.0),
    ];
    let second = vec![
        finished(toy(1, 2), 0.125, 2.0),
        finished(toy(1, 0), 0.5, 2.0),
        finished(toy(1, 1), 0.25 + f64::EPSILON / 4.0, 2.0),
    ];
    vec![lines("a.jsonl", first), lines("b.jsonl", second)]
}

#[test]
fn a_cell_with_two_outcomes_is_an_error_that_names_both_files() {
    let error = merge(files(), Conflict::Refuse).err().unwrap().to_string();
    for part in [
        "b.jsonl, line 3",
        "a.jsonl, line 2",
        "toy 1 seed 1",
        "--conflict first",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let mut same = files();
    same[1].runs.pop();
    let runs = merge(same, Conflict::Refuse).unwrap();
    let seeds: Vec<u64> = runs.0.iter().map(|run| run.cell.seed).collect();
    assert_eq!(seeds, [0, 1, 2]);
    assert_eq!(runs.of(&toy(1, 0)).unwrap().seconds, 1.0);
}

#[test]
fn a_conflict_is_decided_where_it_is_asked_for() {
    let value = |conflict| {
        let runs = merge(files(), conflict).unwrap();
        assert_eq!(runs.0.len(), 3);
        runs.of(&toy(1, 1)).unwrap().outcome.value
    };
    assert_eq!(value(Conflict::First), 0.25);
    assert_eq!(value(Conflict::Last), 0.25 + f64::EPSILON / 4.0);
    // One file that contradicts itself.
    let twice = vec![
        finished(toy(1, 0), 0.5, 1.0),
        finished(toy(1, 0), 0.75, 1.0),
    ];
    let error = merge(vec![lines("a.jsonl", twice)], Conflict::Refuse).err();
    let error = error.unwrap().to_string();
    assert!(
        error.contains("a.jsonl, line 2: expected the outcome of a.jsonl, line 1"),
        "{error}"
    );
}

#[test]
fn a_family_is_the_named_files_and_their_shards() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let family = |named: &[PathBuf]| {
        let family = Family::of(named);
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let names = |paths: &[PathBuf]| paths.iter().map(name).collect::<Vec<_>>();
        (names(&family.files), names(&family.missing))
    };
    let none = Vec::<String>::new();
    // A missing file stays in the list, so that an error can name it.
    assert_eq!(
        family(&[at("a.jsonl")]),
        (vec!["a.jsonl".to_owned()], none.clone())
    );
    for name in ["a-1-of-3.jsonl", "a-3-of-3.jsonl", "b.jsonl"] {
        std::fs::write(at(name), "").unwrap();
    }
    let (files, missing) = family(&[at("a.jsonl")]);
    assert_eq!(files, ["a-1-of-3.jsonl", "a-3-of-3.jsonl"]);
    assert_eq!(missing, ["a-2-of-3.jsonl"]);
    let (files, missing) = family(&[at("b.jsonl"), at("a-3-of-3.jsonl"), at("b.jsonl")]);
    assert_eq!(
        (files, missing),
        (vec!["b.jsonl".into(), "a-3-of-3.jsonl".into()], none)
    );
    let others = Family::others(&[at("a.jsonl"), at("c.jsonl")], &at("a-1-of-3.jsonl"));
    assert_eq!(others, [at("a-3-of-3.jsonl")]);
}

fn spread(cells: &[Toy], path: &Path, others: &[PathBuf]) -> Vec<Toy> {
    let how = Spreading {
        jobs: 2,
        threads: 1,
        folder: None,
        named: Vec::new(),
    };
    let cells: Vec<&Toy> = cells.iter().collect();
    let results = Results::open(path, others, Conflict::Refuse).unwrap();
    let results = Mutex::new(results);
    pool::run(&cells, &how, &results).unwrap();
    let found = Lines::<Toy>::read(path).unwrap().runs;
    for run in &found {
        let value = (run.cell.size as f64 + 0.1 * run.cell.seed as f64).sqrt();
        assert_eq!(run.outcome, Measured { value });
    }
    found.into_iter().map(|run| run.cell).collect()
}

#[test]
fn cells_that_are_finished_somewhere_are_not_run_again() {
    let folder = TempDir::new().unwrap();
    let [a, b] = ["a.jsonl", "b.jsonl"].map(|name| folder.path().join(name));
    let plan: Vec<Toy> = (0..5).map(|seed| toy(3, seed)).collect();
    assert_eq!(spread(&plan[..2], &a, &[]).len(), 2);
    let rest = spread(&plan, &b, std::slice::from_ref(&a));
    assert_eq!(rest.len(), 3);
    assert!(rest.iter().all(|cell| cell.seed >= 2), "{rest:?}");
    // A line cut by a kill is run again, and the file is whole after it.
    let text = std::fs::read_to_string(&b).unwrap();
    std::fs::write(&b, &text[..text.len() - 9]).unwrap();
    assert_eq!(Lines::<Toy>::read(&b).unwrap().runs.len(), 2);
    assert_eq!(spread(&plan, &b, &[a]).len(), 3);
}
