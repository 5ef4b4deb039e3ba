//! A checkpoint is written completely, or not at all.

use super::*;
use std::time::{Duration, Instant};

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    checkpoint(&path);

    // A folder has the name of the checkpoint. No temporary file is left.
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    assert!(store::save::<f32>(&taken, &1_u8).is_err());
    assert_eq!(names(&folder), ["run.ckpt", "taken"]);
    assert!(load(&path).is_ok());

    for nowhere in [
        folder.path().join("no/such/folder/x.ckpt"),
        Path::new("/").into(),
        Path::new("").into(),
    ] {
        assert!(store::save::<f32>(&nowhere, &1_u8).is_err());
    }
}

/// The names in a folder, sorted.
fn names(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<_> = (folder.path().read_dir().unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The variable is set in the process without disk space: the file to which it saves.
const FULL: &str = "EMMY_TEST_FULL";

/// The work of the process of the next test.
#[test]
fn save_where_no_room_is() {
    let Some(path) = std::env::var_os(FULL) else {
        return;
    };
    let error = store::save::<f32>(Path::new(&path), &vec![1_u8; 100_000]).unwrap_err();
    println!("said: {error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let state = checkpoint(&path);
    // No file may be longer than 16 blocks, of 512 or of 1024 bytes: the writing ends in the middle.
    let limited =
        "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact saving::save_where_no_room_is --nocapture";
    let output = (std::process::Command::new("sh").args(["-c", limited]))
        .arg(std::env::current_exe().unwrap())
        .env(FULL, &path)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("run.ckpt: ") && said.contains("File too large"),
        "{said}"
    );
    assert_eq!(load(&path).unwrap(), state);
    assert_eq!(names(&folder), ["run.ckpt"], "nothing is left behind");
}

#[cfg(unix)]
#[test]
fn the_folder_is_synced_after_the_renaming() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("place");
    std::fs::create_dir(&place).unwrap();
    // Files can be created in this folder, but it cannot be opened, and so not be synced.
    let set_mode = |mode| std::fs::set_permissions(&place, PermissionsExt::from_mode(mode));
    set_mode(0o300).unwrap();
    let open = std::fs::File::open(&place).is_ok();
    let saved = store::save::<f32>(&place.join("run.ckpt"), &1_u8);
    set_mode(0o700).unwrap();
    // A superuser can open every folder.
    assert_eq!(saved.is_ok(), open);
    assert_eq!(store::load::<f32, u8>(&place.join("run.ckpt")).unwrap(), 1);
}

#[cfg(unix)]
#[test]
fn an_old_checkpoint_that_is_open_can_be_read_to_its_end() {
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
    // As with `--save /dev/null`, for a user who may write to /dev.
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
        for _ in 0..3 {
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

#[cfg(unix)]
#[test]
fn a_link_stays_and_the_file_it_leads_to_is_replaced() {
    use std::os::unix::fs::symlink;
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("disk")).unwrap();
    // A link to a link to a file in another folder, which the first save creates.
    symlink("second", at("first")).unwrap();
    symlink("disk/run.ckpt", at("second")).unwrap();
    for value in [1_u8, 2] {
        store::save::<f32>(&at("first"), &value).unwrap();
        for name in ["first", "second", "disk/run.ckpt"] {
            assert_eq!(store::load::<f32, u8>(&at(name)).unwrap(), value);
        }
        assert!(at("first").is_symlink() && at("second").is_symlink());
        assert!(!at("disk/run.ckpt").is_symlink());
        assert_eq!(names(&folder), ["disk", "first", "second"]);
        assert_eq!(at("disk").read_dir().unwrap().count(), 1);
    }
    symlink("round", at("round")).unwrap();
    let error = store::save::<f32>(&at("round"), &1_u8).unwrap_err();
    assert!(error.to_string().contains("symbolic links"), "{error}");
}

#[cfg(unix)]
#[test]
fn permissions_are_those_of_the_file_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    store::save::<f32>(&path, &1_u8).unwrap();
    for mode in [0o600, 0o640, 0o664, 0o444] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        store::save::<f32>(&path, &2_u8).unwrap();
        let found = path.metadata().unwrap().permissions().mode();
        assert_eq!(found & 0o7777, mode);
    }
}

#[test]
fn a_name_may_be_as_long_as_the_system_allows() {
    let folder = TempDir::new().unwrap();
    for name in ["x".repeat(255), "ü".repeat(127)] {
        let path = folder.path().join(name);
        if std::fs::write(&path, b"").is_err() {
            // This system allows only shorter names.
            continue;
        }
        for value in [1_u8, 2] {
            store::save::<f32>(&path, &value).unwrap();
            assert_eq!(store::load::<f32, u8>(&path).unwrap(), value);
        }
    }
}

#[cfg(unix)]
#[test]
fn what_killed_runs_left_is_removed_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let name = |of: &str, random: &str| {
        let checksum = crc32fast::hash(of.as_bytes());
        format!("run.ckpt.{checksum:08x}.{random}.tmp")
    };
    let left = name("run.ckpt", "0123456789abcdef");
    let written = name("run.ckpt", "fedcba9876543210");
    let linked = name("run.ckpt", "0000000000000000");
    let mut others = vec![
        name("run.ckpt2", "0123456789abcdef"),
        name("run.ckpt", "0123456789abcde"),
        name("run.ckpt", "0123456789abcdeg"),
        "run.ckpt.123.tmp".to_owned(),
        "run.ckpt.tmp".to_owned(),
        written.clone(),
    ];
    for name in others.iter().chain([&left]) {
        std::fs::write(folder.path().join(name), b"half").unwrap();
    }
    std::os::unix::fs::symlink("run.ckpt.tmp", folder.path().join(&linked)).unwrap();
    // A temporary file that another run is writing at this moment.
    let writer = std::fs::File::open(folder.path().join(&written)).unwrap();
    writer.try_lock().unwrap();
    store::save::<f32>(&path, &1_u8).unwrap();
    others.extend([linked, "run.ckpt".to_owned()]);
    others.sort();
    assert_eq!(names(&folder), others);
    // Taking the place is enough.
    drop(writer);
    let _place = Place::take(&path).unwrap();
    others.retain(|name| *name != written);
    assert_eq!(names(&folder), others);
}

#[cfg(unix)]
#[test]
fn two_runs_do_not_save_to_one_place() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let mut first = Place::take(&path).unwrap();
    // Both runs began without a file; the first one to save has the place.
    let mut second = Place::take(&path).unwrap();
    first.save::<f32>(&1_u8).unwrap();
    let refused = |result: emmy::Result<()>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        let message = error.to_string();
        assert!(message.starts_with("checkpoint "), "{message}");
        assert!(
            message.ends_with(
                "expected a file that no other run saves to, found one that another run saves to"
            ),
            "{message}"
        );
        assert_eq!(store::load::<f32, u8>(&path).unwrap(), 1);
    };
    // A link leads to the same place.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("run.ckpt", &link).unwrap();
    // Each waits a second for the place, all at the same time.
    std::thread::scope(|scope| {
        scope.spawn(|| refused(second.save::<f32>(&2_u8)));
        scope.spawn(|| refused(store::save::<f32>(&path, &2_u8)));
        scope.spawn(|| refused(Place::take(&path).map(|_| ())));
        scope.spawn(|| refused(Place::take(&link).map(|_| ())));
    });
    first.save::<f32>(&1_u8).unwrap();
    // Also after the first run has ended, what it saved stays.
    drop(first);
    let error = second.save::<f32>(&2_u8).unwrap_err().to_string();
    assert!(
        error
            .ends_with("found a file that was not there when this run began, which stays as it is"),
        "{error}"
    );
    assert_eq!(store::load::<f32, u8>(&path).unwrap(), 1);
    drop(second);
    // A run that begins now has seen the file.
    Place::take(&path).unwrap().save::<f32>(&2_u8).unwrap();
    store::save::<f32>(&path, &3_u8).unwrap();
    assert_eq!(names(&folder), ["link", "run.ckpt"]);
}

/// The first run ends only when saves to another place are done. If these waited for the save that waits, it
/// would give up after a second.
#[test]
fn a_save_that_waits_for_a_run_keeps_no_other_from_its_place() {
    let folder = TempDir::new().unwrap();
    let [held, free] = ["held", "free"].map(|name| folder.path().join(name));
    let mut first = Place::take(&held).unwrap();
    first.save::<f32>(&1_u8).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store::save::<f32>(&held, &2_u8));
        // Long enough for the thread to begin.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(300) {
            store::save::<f32>(&free, &3_u8).unwrap();
        }
        drop(first);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(store::load::<f32, u8>(&held).unwrap(), 2);
}

#[test]
fn a_file_that_is_no_checkpoint_stays() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("thesis.txt");
    for text in ["x", "emmy\r\n", "To be, or not to be"] {
        std::fs::write(&path, text).unwrap();
        let taken = Place::take(&path).map(|_| ());
        for refused in [taken, store::save::<f32>(&path, &1_u8)] {
            let error = refused.unwrap_err().to_string();
            let why = "expected no file, or a checkpoint that may be replaced, found a file of another kind";
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    // Weights do not replace a checkpoint either, nor a checkpoint weights.
    let model = emmy::nn::Linear::<f32>::new(2, 2, true, &mut emmy::init::rng(0));
    let [run, weights] = ["run.ckpt", "model.safetensors"].map(|name| folder.path().join(name));
    store::save::<f32>(&run, &1_u8).unwrap();
    store::weights::save(&weights, &model, &()).unwrap();
    store::weights::save(&weights, &model, &()).unwrap();
    let error = store::weights::save(&run, &model, &())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("file of weights ") && error.contains("another kind"),
        "{error}"
    );
    assert!(store::save::<f32>(&weights, &1_u8).is_err());
    // There is nothing to lose in an empty file.
    std::fs::write(&path, "").unwrap();
    Place::take(&path).unwrap().save::<f32>(&1_u8).unwrap();
    assert_eq!(store::load::<f32, u8>(&path).unwrap(), 1);
}

#[test]
fn a_run_does_not_replace_the_checkpoint_of_another() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let set = data::karate();
    let how = |seed| TrainConfig {
        seed,
        ..TrainConfig::default()
    };
    let run = |seed, description: &str| trainer::<f32>(&set, how(seed)).described(description);
    let first = run(0, "gat on karate");
    first
        .place(&path)
        .unwrap()
        .save::<f32>(&first.state())
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    for (other, why) in [
        (
            run(0, "gat on cora"),
            "description: expected gat on cora, found gat on karate",
        ),
        (run(1, "gat on karate"), "seed: expected 1, found 0"),
    ] {
        let error = other.place(&path).unwrap_err().to_string();
        assert!(
            error.contains("saving would replace it: expected a checkpoint of this run"),
            "{error}"
        );
        assert!(error.contains(why), "{error}");
    }
    let doubles = trainer::<f64>(&set, how(0)).place(&path).unwrap_err();
    assert!(
        doubles.to_string().contains("numbers of type f64"),
        "{doubles}"
    );
    assert!(std::fs::read(&path).unwrap() == before);
    // The same run from its start.
    run(0, "gat on karate").place(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_that_came_in_between_stays() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let other = folder.path().join("other.ckpt");
    let mut place = Place::take(&path).unwrap();
    place.save::<f32>(&1_u8).unwrap();
    store::save::<f32>(&other, &2_u8).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let error = place.save::<f32>(&3_u8).unwrap_err().to_string();
    assert!(
        error.contains("another file than this run saved last"),
        "{error}"
    );
    assert_eq!(store::load::<f32, u8>(&path).unwrap(), 2);
    // The place is free after the file was moved away.
    std::fs::rename(&path, &other).unwrap();
    place.save::<f32>(&4_u8).unwrap();
    assert_eq!(store::load::<f32, u8>(&path).unwrap(), 4);
    assert_eq!(store::load::<f32, u8>(&other).unwrap(), 2);
    assert_eq!(names(&folder), ["other.ckpt", "run.ckpt"]);
}

#[test]
fn a_place_in_a_folder_that_is_not_there_is_refused_at_once() {
    let folder = TempDir::new().unwrap();
    let error = Place::take(folder.path().join("no/run.ckpt")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}
