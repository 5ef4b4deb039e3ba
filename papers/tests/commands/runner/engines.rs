//! The command lines of the chapter on several machines, unchanged. If the engine that a test needs is not
//! installed, the test says so and skips; if `EMMY_REQUIRE_ENGINES` is 1, it fails.

use super::*;
use crate::{PROGRAM, isolate};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// The variable that makes a missing engine an error.
const REQUIRED: &str = "EMMY_REQUIRE_ENGINES";

/// The listing of the chapter that contains this text.
fn listing(text: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/clusters.md");
    let chapter = std::fs::read_to_string(path).unwrap();
    let listings = chapter.split("```sh\n").skip(1);
    let mut listings = listings.map(|rest| rest.split("```").next().unwrap());
    let found = listings.find(|listing| listing.contains(text));
    found.unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// The line of the chapter that begins like this.
fn line(start: &str) -> String {
    let listing = listing(start);
    let line = listing.lines().find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("{start}")).to_owned()
}

/// A shell in a folder, with the variables that the chapter sets for the program and the plan.
fn shell(folder: &TempDir, script: &str) -> Command {
    let mut shell = Command::new("sh");
    isolate(&mut shell, folder);
    let plan = PLAN.iter().filter(|arg| !["--jobs", "1"].contains(arg));
    shell
        .args(["-c", script])
        .env("balance", format!("{PROGRAM} balance"))
        .env("plan", plan.copied().collect::<Vec<_>>().join(" "));
    shell
}

/// Whether a program is installed. Other programs have the same names, so its version text must contain
/// `meant`.
fn is_installed(name: &str, meant: &str) -> bool {
    let version = Command::new(name).arg("--version").output();
    if version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains(meant)) {
        return true;
    }
    let required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
    assert!(
        !required,
        "{name} of {meant} is not installed, and {REQUIRED} is 1"
    );
    // Not through `print!`, whose output a passing test does not show.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {name} of {meant} is not installed"
    );
    false
}

/// Checks that four shards have run, as a variable determined, and that the chapter's `--show` merges them.
#[track_caller]
fn assert_four_shards(folder: &TempDir, output: &Output, told_by: &str) {
    let (out, err) = succeeded(output);
    for shard in 1..=4 {
        let said = format!("shard {shard} of 4 ({told_by}");
        assert!(err.contains(&said), "{said} in {err}");
    }
    assert_eq!(json(&out).len(), 4, "{out}");
    assert_shards_are_whole(folder, 4);
    let show = shell(folder, &line("$balance $plan --show"));
    assert_eq!(succeeded(&{ show }.output().unwrap()).0, unsharded().1);
}

#[test]
fn mpirun_runs_one_shard_per_rank() {
    if !is_installed("mpirun", "Open MPI") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut mpirun = shell(&folder, &line("mpirun"));
    // As root of a container, and with fewer processors than ranks.
    for name in [
        "OMPI_ALLOW_RUN_AS_ROOT",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
        "OMPI_MCA_rmaps_base_oversubscribe",
    ] {
        mpirun.env(name, "1");
    }
    let output = mpirun.output().unwrap();
    assert_four_shards(&folder, &output, "OMPI_COMM_WORLD_RANK");
}

#[test]
fn parallel_runs_one_shard_per_job() {
    if !is_installed("parallel", "GNU parallel") {
        return;
    }
    for (start, told_by) in [
        ("parallel --plus", "--shard"),
        ("EMMY_SHARDS=4", "PARALLEL_SEQ"),
    ] {
        let folder = TempDir::new().unwrap();
        let output = shell(&folder, &line(start)).output().unwrap();
        assert_four_shards(&folder, &output, told_by);
    }
}

/// The script of the chapter, once for each task as Slurm would start it.
#[test]
fn an_array_runs_one_shard_per_task() {
    let folder = TempDir::new().unwrap();
    let script = listing("#SBATCH");
    let array = script
        .lines()
        .find_map(|line| line.strip_prefix("#SBATCH --array="));
    let (least, most) = array.unwrap().split_once('-').unwrap();
    let mut all = Vec::new();
    for task in least.parse::<u64>().unwrap()..=most.parse().unwrap() {
        let mut job = shell(&folder, &script);
        for (name, value) in [
            ("SLURM_JOB_ID", "77"),
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
            ("SLURM_ARRAY_TASK_ID", &task.to_string()),
            ("SLURM_ARRAY_TASK_MIN", least),
            ("SLURM_ARRAY_TASK_MAX", most),
            ("SLURM_ARRAY_TASK_STEP", "1"),
            ("SLURM_ARRAY_TASK_COUNT", "4"),
        ] {
            job.env(name, value);
        }
        all.push(job.output().unwrap());
    }
    let mut output = all.remove(0);
    for other in all {
        succeeded(&other);
        output.stdout.extend(other.stdout);
        output.stderr.extend(other.stderr);
    }
    assert_four_shards(&folder, &output, "SLURM_ARRAY_TASK_ID");
}

/// A stand-in for srun that starts the tasks of a step with the variables that srun sets.
const SRUN: &str = r#"#!/bin/sh
case "$1" in --ntasks=*) tasks="${1#--ntasks=}" ;; *) exit 1 ;; esac
shift 2
for task in $(seq 0 $((tasks - 1))); do
    SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_PROCID=$task SLURM_NTASKS=$tasks SLURM_STEP_NUM_TASKS=$tasks "$@" &
done
wait
"#;

#[test]
fn srun_runs_one_shard_per_task() {
    let folder = TempDir::new().unwrap();
    let srun = folder.path().join("srun");
    std::fs::write(&srun, SRUN).unwrap();
    std::fs::set_permissions(&srun, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!("PATH=.:$PATH\n{}", line("srun"));
    let output = shell(&folder, &script).output().unwrap();
    assert_four_shards(&folder, &output, "SLURM_PROCID");
}
