//! Files that are incomplete, or not of the right kind.

use super::*;
use crate::cases::proptest_cases;
use std::sync::OnceLock;

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
    let state = checkpoint(&path);
    assert_eq!(load(&path).unwrap(), state);
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
        (8, 8, "version 6"),
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
    let error = store::load::<f64, TrainState<f64>>(&path)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("byte 12: expected numbers of type f64, found \"f32 \""),
        "{error}"
    );
}

#[test]
fn a_false_length_in_a_checkpoint_costs_no_memory() {
    // A file that passes every check, but declares a list of 2⁶⁰ names.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    store::save::<f32>(&path, &("gat on karate", 0_u64, 1_u64 << 60)).unwrap();
    refused(&path, 28 + 8 + 13 + 8 + 8, "the end of the body");
    // A name of 2⁶² letters, of which one is there.
    store::save::<f32>(&path, &(1_u64 << 62, 0_u64)).unwrap();
    refused(&path, 28 + 8, "beyond the body");
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_read() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let devices = ["/dev/zero", "/dev/full", "/dev/null"].map(Path::new);
    for path in devices.into_iter().chain([&*pipe, folder.path()]) {
        let error = load(path).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}

#[test]
fn earlier_versions_of_the_format_are_refused_with_a_sentence() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    checkpoint(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[8..12], [6, 0, 0, 0]);
    for (version, what) in [
        (1, "that counted epochs only"),
        (2, "with one weight decay and fewer options of layers"),
        (3, "with three optimisers"),
        (4, "with three optimisers"),
        (5, "with another encoding"),
    ] {
        bytes[8] = version;
        std::fs::write(&path, &bytes).unwrap();
        let why =
            format!("expected version 6, found version {version}, of an emmy {what}: train again");
        refused(&path, 8, &why);
    }
}

/// The bytes of a checkpoint of 200 numbers.
fn whole_file() -> Vec<u8> {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    let whole = WHOLE.get_or_init(|| {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.ckpt");
        store::save::<f32>(&path, &vec![1.5_f32; 200]).unwrap();
        std::fs::read(&path).unwrap()
    });
    whole.clone()
}

proptest! {
    #![proptest_config(proptest_cases(600))]

    #[test]
    fn no_changed_byte_goes_unnoticed(at in any::<prop::sample::Index>(), mask in 1..=255_u8) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.ckpt");
        let mut bytes = whole_file();
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        std::fs::write(&path, bytes).unwrap();
        prop_assert!(store::load::<f32, Vec<f32>>(&path).is_err());
    }
}
