//! Checkpoints: a run stopped and resumed ends in the bits of an unbroken one, and nothing but a whole checkpoint of the same run is taken.

use emmy::data::{self, Dataset};
use emmy::nn::{GraphNet, GraphNetConfig, Module};
use emmy::optim::{Method, Optimizer, Plateau};
use emmy::store;
use emmy::train::{Progress, Task, TrainConfig, Trainer};
use emmy::{Error, Real};
use proptest::prelude::*;
use std::path::Path;
use tempfile::TempDir;

type Run<F> = Trainer<F, GraphNet<F>>;

fn config(set: &Dataset) -> GraphNetConfig {
    GraphNetConfig {
        hidden: 3,
        heads: 2,
        dropout: 0.3,
        ..GraphNetConfig::gat(set.feature_count(), set.classes)
    }
}

fn trainer<F: Real>(set: &Dataset, train: TrainConfig) -> Run<F> {
    let net = GraphNet::new(config(set), train.seed).unwrap();
    Trainer::new(net, train).unwrap().described("gat on karate")
}

fn fit<F: Real>(set: &Dataset, trainer: &mut Run<F>) {
    let (x, adjacency) = (set.raw_features(), config(set).adjacency(&set.graph));
    let task = Task {
        labels: &set.labels,
        split: &set.splits[0],
    };
    trainer
        .fit(
            &task,
            |net, pass| net.forward(pass, pass.tape().sparse(&x), &adjacency),
            |_, _| Ok(()),
        )
        .unwrap();
}

fn bits<F: Real>(trainer: &Run<F>) -> Vec<u64> {
    let best = trainer.best_model();
    let all = trainer
        .model()
        .parameters()
        .into_iter()
        .chain(best.parameters());
    all.flat_map(|(_, p)| p.iter().map(|x| x.as_f64().to_bits()).collect::<Vec<_>>())
        .collect()
}

fn resumed_in_the_same_bits<F: Real>(train: TrainConfig) {
    let set = data::karate();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");

    let mut whole = trainer::<F>(&set, train);
    fit(&set, &mut whole);

    let mut half = trainer::<F>(&set, TrainConfig { epochs: 7, ..train });
    fit(&set, &mut half);
    store::save::<F>(&path, &half.progress()).unwrap();
    drop(half);

    let mut resumed = trainer::<F>(&set, train);
    resumed
        .resume(store::load::<F, Progress<F>>(&path).unwrap())
        .unwrap();
    assert_eq!(resumed.history().epochs(), 7);
    fit(&set, &mut resumed);
    assert_eq!(bits(&resumed), bits(&whole), "{train:?}");
    if train.plateau.is_some() {
        let lr = |epoch: usize| whole.history().records[epoch].lr;
        assert!(lr(0) > lr(6) && lr(6) > lr(14));
    }
    let numbers = |t: &Run<F>| -> Vec<_> {
        let records = t.history().records.iter();
        records
            .map(|r| (r.epoch, r.loss, r.lr, r.val_loss, r.test_acc))
            .collect()
    };
    assert_eq!(numbers(&resumed), numbers(&whole));
}

#[test]
fn a_run_stopped_and_resumed_ends_in_the_same_bits() {
    for method in [
        Method::SGD,
        Method::Sgd {
            momentum: 0.9,
            nesterov: true,
        },
        Method::ADAM,
        Method::ADAMW,
    ] {
        let train = TrainConfig {
            method,
            weight_decay: 1e-3,
            epochs: 15,
            // The learning rate falls before and after the place where the run is stopped.
            plateau: Some(Plateau {
                gamma: 0.5,
                patience: 1,
                threshold: 0.9,
                cooldown: 1,
                ..Plateau::default()
            }),
            seed: 5,
            ..TrainConfig::default()
        };
        resumed_in_the_same_bits::<f32>(train);
        resumed_in_the_same_bits::<f64>(train);
    }
}

/// A checkpoint of a short run.
fn checkpoint(path: &Path) -> Progress<f32> {
    let set = data::karate();
    let mut trainer = trainer(
        &set,
        TrainConfig {
            epochs: 3,
            ..TrainConfig::default()
        },
    );
    fit(&set, &mut trainer);
    store::save::<f32>(path, &trainer.progress()).unwrap();
    trainer.progress()
}

fn load(path: &Path) -> emmy::Result<Progress<f32>> {
    store::load::<f32, _>(path)
}

#[track_caller]
fn refused(path: &Path, expected_byte: impl Into<Option<u64>>, reason: &str) {
    let error = load(path).unwrap_err();
    let message = error.to_string();
    let Error::Format { file, byte, .. } = error else {
        panic!("{message}");
    };
    assert_eq!(file, path);
    if let Some(expected) = expected_byte.into() {
        assert_eq!(byte, expected, "{message}");
    }
    assert!(message.contains(reason), "{message}");
}

#[test]
fn damaged_files_are_refused_with_byte_and_reason() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let progress = checkpoint(&path);
    assert_eq!(load(&path).unwrap(), progress);
    let whole = std::fs::read(&path).unwrap();

    for len in (0..whole.len()).step_by(37).chain(0..40) {
        std::fs::write(&path, &whole[..len]).unwrap();
        refused(&path, len as u64, "the end of the file");
    }
    std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    refused(&path, whole.len() as u64, "more");
    for (at, byte, reason) in [
        (0, 0, "emmy"),
        (7, 0, "emmy"),
        (8, 8, "version 1"),
        (12, 12, "numbers of type f32"),
        (23, 16, "a length of at most"),
        (24, 28, "checksum"),
        (28, 28, "damaged"),
        (whole.len() - 1, 28, "damaged"),
    ] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        std::fs::write(&path, bytes).unwrap();
        refused(&path, byte, reason);
    }
    std::fs::write(&path, b"PK\x03\x04 a zip archive, and not a short one").unwrap();
    refused(&path, 0, "PK");

    let missing = load(&folder.path().join("none.ckpt")).unwrap_err();
    assert!(matches!(missing, Error::Io { .. }) && missing.to_string().contains("none.ckpt"));
    assert!(matches!(load(folder.path()), Err(Error::Io { .. })));
}

#[test]
fn numbers_of_another_type_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    checkpoint(&path);
    let error = store::load::<f64, Progress<f64>>(&path)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("byte 12: expected numbers of type f64, found \"f32 \""),
        "{error}"
    );
}

#[test]
fn a_body_that_lies_costs_no_memory() {
    // Right in every check, and a list of 2⁶⁰ names inside.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    store::save::<f32>(&path, &("gat on karate", 0_u64, 1_u64 << 60)).unwrap();
    refused(&path, 28, "");
    store::save::<f32>(&path, &(1_u64 << 62, 0_u64)).unwrap();
    refused(&path, 28, "");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_changed_byte_goes_unnoticed(at in any::<prop::sample::Index>(), mask in 1..=255_u8) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.ckpt");
        store::save::<f32>(&path, &vec![1.5_f32; 200]).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        std::fs::write(&path, bytes).unwrap();
        prop_assert!(store::load::<f32, Vec<f32>>(&path).is_err());
    }
}

#[test]
fn what_cannot_be_written_leaves_the_old_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let progress = checkpoint(&path);

    // The place of the temporary file is taken by a folder.
    let blocked = folder
        .path()
        .join(format!("run.ckpt.{}.tmp", std::process::id()));
    std::fs::create_dir(&blocked).unwrap();
    let error = store::save::<f32>(&path, &vec![0_u8; 10]).unwrap_err();
    assert!(
        matches!(error, Error::Io { .. }) && error.to_string().contains("run.ckpt"),
        "{error}"
    );
    assert_eq!(load(&path).unwrap(), progress);
    std::fs::remove_dir(&blocked).unwrap();

    // The place itself is a folder: nothing is left behind.
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert!(store::save::<f32>(&taken, &1_u8).is_err());
    let mut names: Vec<_> = (folder.path().read_dir().unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["run.ckpt", "taken"]);

    for nowhere in [
        folder.path().join("no/such/folder/x.ckpt"),
        Path::new("/").into(),
        Path::new("").into(),
    ] {
        assert!(store::save::<f32>(&nowhere, &1_u8).is_err());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let progress = checkpoint(&path);
    // Every write to this device fails for want of space.
    let temporary = folder
        .path()
        .join(format!("run.ckpt.{}.tmp", std::process::id()));
    std::os::unix::fs::symlink("/dev/full", &temporary).unwrap();
    let error = store::save::<f32>(&path, &progress)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("run.ckpt") && error.contains("space"),
        "{error}"
    );
    assert_eq!(load(&path).unwrap(), progress);
    assert!(!temporary.is_symlink(), "nothing is left behind");
}

#[cfg(target_os = "linux")]
#[test]
fn a_checkpoint_takes_its_place_after_it_was_synced_only() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let progress = checkpoint(&path);
    // This device takes every write, and cannot be synced.
    let temporary = folder
        .path()
        .join(format!("run.ckpt.{}.tmp", std::process::id()));
    std::os::unix::fs::symlink("/dev/null", &temporary).unwrap();
    assert!(store::save::<f32>(&path, &progress).is_err());
    assert_eq!(load(&path).unwrap(), progress);
}

#[cfg(unix)]
#[test]
fn the_folder_is_synced_after_the_renaming() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("place");
    std::fs::create_dir(&place).unwrap();
    // Files can be made in it, but it cannot be opened, and so not be synced.
    let set_mode = |mode| std::fs::set_permissions(&place, PermissionsExt::from_mode(mode));
    set_mode(0o300).unwrap();
    let open = std::fs::File::open(&place).is_ok();
    let saved = store::save::<f32>(&place.join("run.ckpt"), &1_u8);
    set_mode(0o700).unwrap();
    // To a superuser every folder is open.
    assert_eq!(saved.is_ok(), open);
    assert_eq!(store::load::<f32, u8>(&place.join("run.ckpt")).unwrap(), 1);
}

#[cfg(unix)]
#[test]
fn who_has_the_old_checkpoint_open_reads_it_to_its_end() {
    use std::io::Read;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    store::save::<f32>(&path, &vec![1_u8; 1000]).unwrap();
    let (whole, mut open) = (
        std::fs::read(&path).unwrap(),
        std::fs::File::open(&path).unwrap(),
    );
    store::save::<f32>(&path, &vec![2_u8; 10]).unwrap();
    let mut found = Vec::new();
    open.read_to_end(&mut found).unwrap();
    assert!(found == whole);
}

#[cfg(unix)]
#[test]
fn what_is_not_a_file_is_not_replaced() {
    // As `--save /dev/null` would be, by one who may write to /dev.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = store::save::<f32>(&path, &1_u8).unwrap_err().to_string();
    assert!(
        error.contains("socket") && error.contains("not a regular file"),
        "{error}"
    );
    use std::os::unix::fs::FileTypeExt;
    assert!(path.symlink_metadata().unwrap().file_type().is_socket());
}

#[test]
fn threads_that_save_to_one_place_leave_a_whole_checkpoint() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let save = &|k: usize| {
        let value = vec![k as f32; 1000 * (k + 1)];
        for _ in 0..20 {
            store::save::<f32>(&path, &value).unwrap();
            let found = store::load::<f32, Vec<f32>>(&path).unwrap();
            assert!(found.len() == 1000 * (found[0] as usize + 1));
        }
    };
    std::thread::scope(|scope| {
        for k in 0..4 {
            scope.spawn(move || save(k));
        }
    });
}

#[test]
fn history_parameters_and_state_that_do_not_fit_are_refused() {
    let folder = TempDir::new().unwrap();
    let progress = checkpoint(&folder.path().join("run.ckpt"));
    let set = data::karate();
    let refused = |change: &dyn Fn(&mut Progress<f32>), reason: &str| {
        let mut progress = progress.clone();
        change(&mut progress);
        let mut trainer = trainer(&set, TrainConfig::default());
        let message = trainer.resume(progress).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
        assert_eq!(trainer.history().epochs(), 0);
    };
    refused(&|p| p.history.records[2].epoch = 0, "epoch");
    refused(
        &|p| {
            p.history.records[1].gradient_norms.pop();
        },
        "gradient norms",
    );
    refused(&|p| p.history.names[0] = "scale".into(), "names");
    refused(&|p| p.history.records.clear(), "best");
    refused(
        &|p| {
            p.parameters.pop();
            p.best.pop();
        },
        "another model: parameter 7: expected layers.1.bias",
    );
    refused(
        &|p| {
            p.best.pop();
        },
        "best parameters",
    );
    refused(
        &|p| {
            let mut other = emmy::Tensor::zeros(vec![2]);
            let gradient = other.clone();
            p.optimizer = Optimizer::new(Method::ADAM);
            p.optimizer.step([&mut other], &[gradient], 0.1);
        },
        "state of the optimiser",
    );
}

#[test]
fn another_run_is_refused_with_what_differs() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let progress = checkpoint(&path);
    let set = data::karate();
    let same = TrainConfig::default();
    let refused = |mut other: Run<f32>, reason: &str| {
        let before = bits(&other);
        let message = other.resume(progress.clone()).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
        assert_eq!(bits(&other), before);
    };
    let mut wider = config(&set);
    wider.hidden = 5;
    let net = GraphNet::new(wider, 0).unwrap();
    refused(
        Trainer::new(net, same).unwrap().described("gat on karate"),
        "parameter 0: expected layers.0.weight of shape [10, 34], found layers.0.weight of shape [6, 34]",
    );
    let deeper = GraphNetConfig {
        layers: 3,
        ..config(&set)
    };
    let net = GraphNet::new(deeper, 0).unwrap();
    refused(
        Trainer::new(net, same).unwrap().described("gat on karate"),
        "another model",
    );
    refused(
        trainer(&set, same).described("gcn on cora"),
        "description: expected gcn on cora, found gat on karate",
    );
    refused(
        trainer(&set, TrainConfig { seed: 1, ..same }),
        "seed: expected 1, found 0",
    );
    refused(
        trainer(
            &set,
            TrainConfig {
                method: Method::SGD,
                ..same
            },
        ),
        "rule of updates",
    );
    refused(
        trainer(
            &set,
            TrainConfig {
                weight_decay: 0.1,
                ..same
            },
        ),
        "rule of updates",
    );
    refused(
        trainer(
            &set,
            TrainConfig {
                plateau: Some(Plateau::default()),
                ..same
            },
        ),
        "rule of updates",
    );

    let with = |patience: usize| TrainConfig {
        plateau: Some(Plateau {
            patience,
            ..Plateau::default()
        }),
        ..same
    };
    let progress = trainer::<f32>(&set, with(3)).progress();
    let message = trainer::<f32>(&set, with(4)).resume(progress).unwrap_err();
    assert!(message.to_string().contains("rule of updates"), "{message}");
}
