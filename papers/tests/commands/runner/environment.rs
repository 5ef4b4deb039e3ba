//! The shard that the variables of an engine give a process.

use papers::support::paper::environment::shard;

/// The shard and its source, as one text, or the error.
fn of(variables: &[(&str, &str)]) -> Result<String, String> {
    let lookup = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    match shard(&lookup) {
        Ok(None) => Ok("whole".to_owned()),
        Ok(Some((shard, from))) => Ok(format!("{shard}: {from}")),
        Err(error) => Err(error.to_string()),
    }
}

const ID: &str = "SLURM_ARRAY_TASK_ID";
const MIN: &str = "SLURM_ARRAY_TASK_MIN";
const MAX: &str = "SLURM_ARRAY_TASK_MAX";
const COUNT: &str = "SLURM_ARRAY_TASK_COUNT";
const STEP: &str = "SLURM_ARRAY_TASK_STEP";

#[test]
fn without_an_engine_there_is_one_shard() {
    for variables in [
        &[][..],
        // An engine that starts one process.
        &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")],
        &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")],
        &[(ID, "3"), (MIN, "3"), (COUNT, "1")],
        // Jobs of GNU parallel that are not shards.
        &[("PARALLEL_SEQ", "3")],
        // An allocation without srun: a shell of salloc, and a batch script, which runs once for all tasks.
        &[("SLURM_JOB_ID", "77"), ("SLURM_NTASKS", "8")],
        &[
            ("SLURM_JOB_ID", "77"),
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "8"),
        ],
    ] {
        assert_eq!(of(variables).as_deref(), Ok("whole"), "{variables:?}");
    }
}

#[test]
fn each_engine_gives_a_place() {
    for (variables, place) in [
        (
            &[(ID, "1"), (MIN, "1"), (MAX, "4"), (COUNT, "4"), (STEP, "1")][..],
            "1 of 4: SLURM_ARRAY_TASK_ID, 1 of 4",
        ),
        (
            &[(ID, "7"), (MIN, "0"), (COUNT, "8")],
            "8 of 8: SLURM_ARRAY_TASK_ID, 8 of 8",
        ),
        // --array=10-30:10
        (
            &[
                (ID, "20"),
                (MIN, "10"),
                (MAX, "30"),
                (COUNT, "3"),
                (STEP, "10"),
            ],
            "2 of 3: SLURM_ARRAY_TASK_ID, 2 of 3",
        ),
        // --array=1-16:5, whose largest task is 16
        (
            &[
                (ID, "16"),
                (MIN, "1"),
                (MAX, "16"),
                (COUNT, "4"),
                (STEP, "5"),
            ],
            "4 of 4: SLURM_ARRAY_TASK_ID, 4 of 4",
        ),
        (
            &[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "3")],
            "3 of 3: SLURM_PROCID, 3 of 3",
        ),
        // A step of four tasks in a job of eight.
        (
            &[
                ("SLURM_JOB_ID", "77"),
                ("SLURM_STEP_ID", "0"),
                ("SLURM_PROCID", "1"),
                ("SLURM_STEP_NUM_TASKS", "4"),
                ("SLURM_NTASKS", "8"),
            ],
            "2 of 4: SLURM_PROCID, 2 of 4",
        ),
        (
            &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")],
            "1 of 2: OMPI_COMM_WORLD_RANK, 1 of 2",
        ),
        (
            &[("PMI_RANK", "4"), ("PMI_SIZE", "5")],
            "5 of 5: PMI_RANK, 5 of 5",
        ),
        (
            &[("PARALLEL_SEQ", "2"), ("EMMY_SHARDS", "4")],
            "2 of 4: PARALLEL_SEQ, 2 of 4",
        ),
    ] {
        assert_eq!(of(variables).as_deref(), Ok(place), "{variables:?}");
    }
}

#[test]
fn mpirun_in_a_job_counts_its_own_ranks() {
    let variables = [
        ("OMPI_COMM_WORLD_RANK", "5"),
        ("OMPI_COMM_WORLD_SIZE", "8"),
        // The variables of the daemon that srun started on this node.
        ("SLURM_JOB_ID", "77"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "1"),
        ("SLURM_STEP_NUM_TASKS", "2"),
    ];
    assert_eq!(
        of(&variables).as_deref(),
        Ok("6 of 8: OMPI_COMM_WORLD_RANK, 6 of 8")
    );
}

#[test]
fn nested_engines_multiply() {
    let mut seen = Vec::new();
    for task in 3..6 {
        for rank in 0..4 {
            for job in 1..3 {
                let numbers = [task, rank, job].map(|n: u64| n.to_string());
                let text = of(&[
                    (ID, &numbers[0]),
                    (MIN, "3"),
                    (COUNT, "3"),
                    ("PMI_RANK", &numbers[1]),
                    ("PMI_SIZE", "4"),
                    ("PARALLEL_SEQ", &numbers[2]),
                    ("EMMY_SHARDS", "2"),
                ]);
                let text = text.unwrap();
                let (shard, from) = text.split_once(": ").unwrap();
                assert_eq!(from.matches(" × ").count(), 2, "{from}");
                seen.push(shard.to_owned());
            }
        }
    }
    let all: Vec<String> = (1..=24).map(|index| format!("{index} of 24")).collect();
    assert_eq!(seen, all);
}

#[test]
fn contradictions_are_refused_with_a_reason() {
    for (variables, reason) in [
        (
            &[(ID, "9"), (MIN, "1"), (MAX, "4"), (COUNT, "4")][..],
            "SLURM_ARRAY_TASK_ID: expected one of 4 tasks from 1 to 4 in steps of 1, found 9",
        ),
        (&[(ID, "0"), (MIN, "1"), (COUNT, "4")], "found 0"),
        (
            &[(ID, "2"), (MIN, "1"), (MAX, "7"), (COUNT, "4"), (STEP, "2")],
            "in steps of 2, found 2",
        ),
        // --array=1,3,7
        (
            &[(ID, "3"), (MIN, "1"), (MAX, "7"), (COUNT, "3"), (STEP, "1")],
            "found 3 tasks from 1 to 7 in steps of 1",
        ),
        (&[(ID, "1"), (MIN, "1"), (COUNT, "0")], "evenly spaced"),
        (
            &[(ID, "1"), (MIN, "1")],
            "SLURM_ARRAY_TASK_COUNT (wanted because SLURM_ARRAY_TASK_ID is set)",
        ),
        (&[(ID, "first"), (MIN, "1")], "a number, found \"first\""),
        (
            &[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "2")],
            "OMPI_COMM_WORLD_RANK: expected less than OMPI_COMM_WORLD_SIZE, 2, found 2",
        ),
        (
            &[("PMI_RANK", "0"), ("PMI_SIZE", "0")],
            "less than PMI_SIZE, 0",
        ),
        (
            &[("PMI_RANK", "0")],
            "PMI_SIZE (wanted because PMI_RANK is set)",
        ),
        (&[("SLURM_PROCID", "3"), ("SLURM_NTASKS", "3")], "found 3"),
        (
            &[("EMMY_SHARDS", "4")],
            "PARALLEL_SEQ (wanted because EMMY_SHARDS is set)",
        ),
        (
            &[("EMMY_SHARDS", "4"), ("PARALLEL_SEQ", "5")],
            "PARALLEL_SEQ: expected a job from 1 to EMMY_SHARDS, 4, found 5",
        ),
        (&[("EMMY_SHARDS", "0"), ("PARALLEL_SEQ", "1")], "found 1"),
        (
            &[("PMI_RANK", "0"), ("PMI_SIZE", "18446744073709551615")],
            "at most 1000000 shards",
        ),
        (
            &[
                ("PMI_RANK", "0"),
                ("PMI_SIZE", "1000000"),
                ("PARALLEL_SEQ", "1"),
                ("EMMY_SHARDS", "1000000"),
            ],
            "at most 1000000 shards",
        ),
    ] {
        let error = of(variables).unwrap_err();
        assert!(error.contains(reason), "{variables:?}: {error}");
    }
}
