//! A checkpoint is written completely, or not at all.

use super::*;

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let state = checkpoint(&path);

    // A folder has the name of the temporary file.
    let blocked = folder
        .path()
        .join(format!("run.ckpt.{}.tmp", std::process::id()));
    std::fs::create_dir(&blocked).unwrap();
    let error = store::save::<f32>(&path, &vec![0_u8; 10]).unwrap_err();
    assert!(
        matches!(error, Error::Io { .. }) && error.to_string().contains("run.ckpt"),
        "{error}"
    );
    assert_eq!(load(&path).unwrap(), state);
    std::fs::remove_dir(&blocked).unwrap();

    // A folder has the name of the checkpoint: no temporary file is left behind.
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

/// Lets the temporary file of the next checkpoint `run.ckpt` be a device.
#[cfg(target_os = "linux")]
fn write_to(folder: &TempDir, device: &str) -> std::path::PathBuf {
    let name = format!("run.ckpt.{}.tmp", std::process::id());
    let temporary = folder.path().join(name);
    std::os::unix::fs::symlink(device, &temporary).unwrap();
    temporary
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let state = checkpoint(&path);
    // Every write to this device fails, because it has no space.
    let temporary = write_to(&folder, "/dev/full");
    let error = store::save::<f32>(&path, &state).unwrap_err().to_string();
    assert!(
        error.contains("run.ckpt") && error.contains("space"),
        "{error}"
    );
    assert_eq!(load(&path).unwrap(), state);
    assert!(!temporary.is_symlink(), "nothing is left behind");
}

#[cfg(target_os = "linux")]
#[test]
fn a_checkpoint_takes_its_place_after_it_was_synced_only() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let state = checkpoint(&path);
    // This device takes every write, and cannot be synced.
    write_to(&folder, "/dev/null");
    assert!(store::save::<f32>(&path, &state).is_err());
    assert_eq!(load(&path).unwrap(), state);
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
