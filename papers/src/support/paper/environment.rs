//! The shard of this process, from the environment variables that the engine which started it has set.

use super::shard::Shard;
use emmy::{Error, Result};

/// The number of shards for jobs of GNU parallel, which tells a job its number but not the number of jobs.
pub const SHARDS: &str = "EMMY_SHARDS";

/// The variables of the environment.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The place of this process among those that one engine started.
struct Place {
    /// The variable that gives the place.
    variable: &'static str,
    /// From 0.
    index: u64,
    count: u64,
}

/// The shard of this process, and the variables that determine it; `None` if no engine started the process,
/// or if it is the only process.
///
/// An array of jobs, the ranks in a job and the jobs of GNU parallel in a rank may be nested: the number of
/// shards is their product.
///
/// # Errors
/// If the variables contradict each other.
pub fn shard(lookup: Lookup) -> Result<Option<(Shard, String)>> {
    let places = [array(lookup)?, rank(lookup)?, parallel(lookup)?];
    let (mut index, mut count) = (0_u64, 1_u64);
    let mut from = Vec::new();
    for place in places.into_iter().flatten().filter(|place| place.count > 1) {
        let Place {
            variable,
            index: inner,
            count: of,
        } = place;
        check(variable, inner + 1, of)?;
        // Both factors are at most 10⁶.
        (index, count) = (index * of + inner, count * of);
        check(variable, index + 1, count)?;
        from.push(format!("{variable}, {} of {of}", inner + 1));
    }
    match from.is_empty() {
        true => Ok(None),
        false => Ok(Some((
            check("--shard", index + 1, count)?,
            from.join(" × "),
        ))),
    }
}

fn check(variable: &str, index: u64, count: u64) -> Result<Shard> {
    Shard::new(index, count).map_err(|reason| {
        Error::invalid(
            variable,
            format!("a shard of the plan ({reason})"),
            format!("{index} of {count}"),
        )
    })
}

/// A variable that holds a number, if it is there.
fn number(lookup: Lookup, variable: &str) -> Result<Option<u64>> {
    let Some(text) = lookup(variable) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Error::invalid(variable, "a number", format!("{text:?}"))),
    }
}

/// A variable that must be there beside another one.
fn beside(lookup: Lookup, other: &str, variable: &str) -> Result<u64> {
    number(lookup, variable)?.ok_or_else(|| {
        let rule = "a variable beside it, or --shard I/N";
        let what = format!("{variable} (wanted because {other} is set)");
        Error::invalid(what, rule, "neither")
    })
}

/// A rank from 0 below a size.
fn ranked(lookup: Lookup, variable: &'static str, size: &'static str) -> Result<Option<Place>> {
    let Some(index) = number(lookup, variable)? else {
        return Ok(None);
    };
    let count = beside(lookup, variable, size)?;
    if index >= count {
        let rule = format!("less than {size}, {count}");
        return Err(Error::invalid(variable, rule, index.to_string()));
    }
    Ok(Some(Place {
        variable,
        index,
        count,
    }))
}

/// A task of a Slurm array, `sbatch --array=0-7` or `--array=1-15:2`. An array with gaps does not say which
/// of its tasks this is, and is refused.
fn array(lookup: Lookup) -> Result<Option<Place>> {
    const ID: &str = "SLURM_ARRAY_TASK_ID";
    let Some(id) = number(lookup, ID)? else {
        return Ok(None);
    };
    let least = beside(lookup, ID, "SLURM_ARRAY_TASK_MIN")?;
    let count = beside(lookup, ID, "SLURM_ARRAY_TASK_COUNT")?;
    let step = number(lookup, "SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
    let largest = match number(lookup, "SLURM_ARRAY_TASK_MAX")? {
        Some(largest) => largest,
        None => least.saturating_add(step.saturating_mul(count.saturating_sub(1))),
    };
    let places = largest.checked_sub(least).map(|width| width / step + 1);
    if places != Some(count) {
        let rule = "an array of evenly spaced tasks, as in --array=1-8; or --shard I/N";
        let found = format!("{count} tasks from {least} to {largest} in steps of {step}");
        return Err(Error::invalid(ID, rule, found));
    }
    let offset = id.checked_sub(least).filter(|_| id <= largest);
    match offset.filter(|offset| offset % step == 0) {
        Some(offset) => Ok(Some(Place {
            variable: ID,
            index: offset / step,
            count,
        })),
        None => {
            let rule = format!("one of {count} tasks from {least} to {largest} in steps of {step}");
            Err(Error::invalid(ID, rule, id.to_string()))
        }
    }
}

/// A rank of Open MPI, else of a process manager with PMI (MPICH, Intel MPI, srun), else of srun. Only the
/// innermost engine counts: `mpirun` within a Slurm job is itself started by `srun`, once per node.
fn rank(lookup: Lookup) -> Result<Option<Place>> {
    for (rank, size) in [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ] {
        if let Some(place) = ranked(lookup, rank, size)? {
            return Ok(Some(place));
        }
    }
    // A batch script has SLURM_PROCID=0 and the SLURM_NTASKS of its whole job, and runs once.
    let is_script = lookup("SLURM_JOB_ID").is_some() && lookup("SLURM_STEP_ID").is_none();
    let step = "SLURM_STEP_NUM_TASKS";
    match lookup(step) {
        _ if is_script => Ok(None),
        Some(_) => ranked(lookup, "SLURM_PROCID", step),
        None => ranked(lookup, "SLURM_PROCID", "SLURM_NTASKS"),
    }
}

/// A job of GNU parallel, if `EMMY_SHARDS` gives the number of jobs. Without this variable the jobs are not
/// shards.
fn parallel(lookup: Lookup) -> Result<Option<Place>> {
    const SEQ: &str = "PARALLEL_SEQ";
    let Some(count) = number(lookup, SHARDS)? else {
        return Ok(None);
    };
    let job = beside(lookup, SHARDS, SEQ)?;
    if job == 0 || job > count {
        let rule = format!("a job from 1 to {SHARDS}, {count}");
        return Err(Error::invalid(SEQ, rule, job.to_string()));
    }
    Ok(Some(Place {
        variable: SEQ,
        index: job - 1,
        count,
    }))
}
