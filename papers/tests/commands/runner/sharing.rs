//! The division of a plan into shards: they are disjoint, cover the plan, and have about the same work.

use super::toy;
use emmy::rand::RngExt;
use papers::support::paper::cell::Cell;
use papers::support::paper::pool::distinct;
use papers::support::paper::shard::Shard;
use std::path::Path;

#[test]
fn shards_are_disjoint_and_cover_the_plan() {
    let rng = &mut emmy::init::rng(5);
    for count in [1, 2, 3, 7, 50] {
        for cells in [0, 1, 6, 40] {
            let plan: Vec<_> = (0..cells)
                .map(|seed| toy(rng.random_range(0..100), seed))
                .collect();
            let plan: Vec<_> = plan.iter().collect();
            let shards: Vec<_> = (1..=count)
                .map(|index| Shard::new(index, count).unwrap().part(&plan))
                .collect();
            let mut all: Vec<u64> = shards.iter().flatten().map(|cell| cell.seed).collect();
            all.sort();
            assert_eq!(all, (0..cells).collect::<Vec<_>>());

            // No shard has more than its share and one cell.
            let work = |cell: &&super::Toy| cell.cost().max(1);
            let total: u64 = plan.iter().map(work).sum();
            let largest = plan.iter().map(work).max().unwrap_or(0);
            for shard in &shards {
                let load: u64 = shard.iter().map(work).sum();
                assert!(load <= total / count + largest, "{load} of {total}");
            }

            // The same cells in another order are divided in the same way.
            let turned: Vec<_> = plan.iter().copied().rev().collect();
            for (index, shard) in shards.iter().enumerate() {
                let again = Shard::new(index as u64 + 1, count).unwrap().part(&turned);
                assert_eq!(shard, &again);
            }
        }
    }
}

#[test]
fn the_costliest_cells_are_in_different_shards() {
    let plan: Vec<_> = [9, 1, 8, 1, 7, 1, 1].into_iter().zip(0..).collect();
    let plan: Vec<_> = plan
        .into_iter()
        .map(|(size, seed)| toy(size, seed))
        .collect();
    let plan: Vec<_> = plan.iter().collect();
    for index in 1..=3 {
        let part = Shard::new(index, 3).unwrap().part(&plan);
        let large = part.iter().filter(|cell| cell.size > 1).count();
        assert_eq!(large, 1, "{part:?}");
    }
}

#[test]
fn a_cell_that_another_one_answers_is_left_out() {
    let recorded = |seed| super::Toy {
        recorded: true,
        ..toy(1, seed)
    };
    let plan = [toy(1, 0), recorded(0), toy(1, 1), toy(1, 1), recorded(2)];
    let kept: Vec<_> = distinct(&plan).into_iter().cloned().collect();
    assert_eq!(kept, [recorded(0), toy(1, 1), recorded(2)]);
}

#[test]
fn a_shard_is_written_as_it_is_said() {
    let shard: Shard = "2/8".parse().unwrap();
    assert_eq!(shard, Shard::new(2, 8).unwrap());
    assert_eq!(shard.to_string(), "2 of 8");
    let path = |shard: Shard, file: &str| shard.path(Path::new(file)).display().to_string();
    assert_eq!(path(shard, "r/b.jsonl"), "r/b-2-of-8.jsonl");
    assert_eq!(path(shard, "b"), "b-2-of-8");
    assert_eq!(path("1/1".parse().unwrap(), "r/b.jsonl"), "r/b.jsonl");
    for (text, reason) in [
        ("0/0", "at least one shard"),
        ("1/0", "at least one shard"),
        ("0/4", "counted from 1"),
        ("5/4", "there is no shard 5 of 4"),
        ("1/2000000", "at most 1000000 shards"),
        ("2", "expected I/N, as in 2/8"),
        ("a/b", "expected I/N, as in 2/8"),
        ("-1/4", "expected I/N, as in 2/8"),
        ("1/2/3", "expected I/N, as in 2/8"),
    ] {
        let error = text.parse::<Shard>().unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn the_files_of_shards_are_found_by_their_names() {
    let folder = tempfile::TempDir::new().unwrap();
    let base = folder.path().join("balance.jsonl");
    for name in [
        "balance-2-of-3.jsonl",
        "balance-1-of-3.jsonl",
        "balance-10-of-12.jsonl",
        "balance.jsonl",
        "balance-0-of-3.jsonl",
        "balance-4-of-3.jsonl",
        "balance-01-of-3.jsonl",
        "balance-1-of-1.jsonl",
        "balance-1-of-3.txt",
        "other-1-of-3.jsonl",
        "balance-1-of-3-1-of-2.jsonl",
    ] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let found: Vec<_> = Shard::beside(&base).iter().map(Shard::to_string).collect();
    assert_eq!(found, ["1 of 3", "2 of 3", "10 of 12"]);
    let missing = Shard::missing(&Shard::beside(&base));
    assert_eq!(missing.len(), 1 + 11);
    assert_eq!(missing[0].to_string(), "3 of 3");
}
