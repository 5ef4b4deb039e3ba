//! Runs that are killed. Whenever this happens, the checkpoint is whole, and the run that continues from it
//! ends with the bits of an uninterrupted run. `EMMY_KILL_SECONDS=60 cargo test --test checkpoint kills`
//! kills for a minute.

use emmy::data;
use emmy::init;
use emmy::nn::{GraphNet, GraphNetConfig};
use emmy::rand::RngExt;
use emmy::store::{self, Place};
use emmy::train::{NodeClassification, TrainConfig, TrainState, Trainer};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Set in the processes that train: the checkpoint, and the number of epochs.
const FILE: &str = "EMMY_TEST_TRAINS";
const EPOCHS: &str = "EMMY_TEST_EPOCHS";

type Run = Trainer<f32, GraphNet<f32>>;

/// Trains to the end, from the state of `trainer`.
fn train(epochs: usize, seed: u64, path: Option<&Path>) -> TrainState<f32> {
    let set = data::karate();
    let config = GraphNetConfig::gat(set.feature_count(), set.classes).heads(2, 1);
    let (x, neighbours) = (set.raw_features(), config.neighbourhood(&set.graph));
    let task = NodeClassification::new(&set.labels, &set.splits[0], |net: &GraphNet<_>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    });
    let how = TrainConfig {
        epochs,
        seed,
        ..TrainConfig::default()
    };
    let mut trainer: Run = Trainer::new(GraphNet::new(config, seed).unwrap(), how).unwrap();
    let mut place = path.map(|path| Place::take(path).unwrap());
    if let Some(path) = path.filter(|path| path.exists()) {
        trainer
            .resume(store::load::<f32, _>(path).unwrap())
            .unwrap();
    }
    let keep = |trainer: &Run, _: &_| match &mut place {
        Some(place) => place.save::<f32>(&trainer.state()),
        None => Ok(()),
    };
    trainer.fit(&task.unwrap(), keep).unwrap();
    trainer.state()
}

/// The work of a process that the tests below start: it continues from the checkpoint if there is one,
/// trains, and saves after every epoch.
#[test]
fn train_and_save() {
    if let (Some(path), Ok(epochs)) = (std::env::var_os(FILE), std::env::var(EPOCHS)) {
        let path = PathBuf::from(path);
        train(epochs.parse().unwrap(), seed_of(&path), Some(&path));
    }
}

/// The file is named for the seed of its run.
fn seed_of(path: &Path) -> u64 {
    path.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

fn start(path: &Path, epochs: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::train_and_save"])
        .env(FILE, path)
        .env(EPOCHS, epochs.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The state without the times that epochs took.
fn untimed(mut state: TrainState<f32>) -> TrainState<f32> {
    state.history.records.iter_mut().for_each(|r| r.ms = 0.0);
    state
}

fn load(path: &Path) -> TrainState<f32> {
    store::load::<f32, _>(path).unwrap()
}

#[test]
fn killed_at_any_moment_a_run_goes_on_and_ends_in_the_same_bits() {
    const LEAST_KILLS: usize = 10;
    const LENGTH: usize = 60;
    let seconds = std::env::var("EMMY_KILL_SECONDS").map_or(1, |s| s.parse().unwrap());
    let (start_time, rng) = (Instant::now(), &mut init::rng(0));
    let folder = TempDir::new().unwrap();
    let names = || folder.path().read_dir().unwrap().count();
    let (mut kills, mut within_saves, mut runs) = (0, 0, 0);
    while runs == 0 || kills < LEAST_KILLS || start_time.elapsed().as_secs() < seconds {
        let path = folder.path().join(format!("{runs}.ckpt"));
        let (mut before, mut patience) = (0, 20);
        loop {
            let mut run = start(&path, LENGTH);
            // A run that makes no progress for a while gets more time: on a busy machine it may not even
            // begin.
            std::thread::sleep(Duration::from_millis(rng.random_range(1..patience)));
            let ended = run.try_wait().unwrap();
            if ended.is_none() {
                run.kill().unwrap();
            }
            let status = run.wait().unwrap();
            assert!(status.success() || status.code().is_none(), "{status}");
            // The checkpoint is the old one or the new one, and there is at most one unfinished file beside
            // it.
            let found = if path.exists() {
                load(&path).epochs()
            } else {
                0
            };
            assert!(found >= before, "{found} epochs after {before}");
            let beside = names() - usize::from(path.exists());
            assert!(beside <= 1, "{beside} files beside the checkpoint");
            if status.success() {
                break;
            }
            kills += 1;
            within_saves += beside;
            patience = if found > before { 60 } else { patience * 2 };
            before = found;
        }
        assert_eq!(names(), 1, "nothing is left beside the checkpoint");
        let whole = train(LENGTH, seed_of(&path), None);
        assert!(untimed(load(&path)) == untimed(whole), "another end");
        std::fs::remove_file(&path).unwrap();
        runs += 1;
    }
    println!("{kills} kills, {within_saves} of them while a checkpoint was written, {runs} runs");
}

#[test]
fn another_process_is_refused_until_the_first_is_gone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("7.ckpt");
    let mut run = start(&path, 1_000_000);
    while !path.exists() {
        assert!(run.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = |result: emmy::Result<()>| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains("another run saves to"), "{message}");
    };
    // Each waits a second for the place, both at the same time.
    std::thread::scope(|scope| {
        scope.spawn(|| refused(store::save::<f32>(&path, &1_u8)));
        scope.spawn(|| refused(Place::take(&path).map(|_| ())));
    });
    // Reading is still possible.
    assert!(load(&path).epochs() > 0);
    assert!(run.try_wait().unwrap().is_none(), "it goes on");
    run.kill().unwrap();
    run.wait().unwrap();
    let reached = load(&path);
    let mut place = Place::take(&path).unwrap();
    place.save::<f32>(&reached).unwrap();
    assert_eq!(load(&path), reached);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}
