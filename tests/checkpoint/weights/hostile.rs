//! Files that are damaged or malicious: each is refused with the byte, or read as the crate `safetensors`
//! reads a whole file.

use super::*;
use crate::cases::proptest_cases;
use emmy::Error;
use emmy::nn::Module;
use emmy::store::weights::{self, Weights};
use proptest::prelude::*;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use tempfile::TempDir;

/// A file with this header and the given number of bytes after it.
fn file(header: &str, numbers: usize) -> Vec<u8> {
    let length = header.len() as u64;
    [
        &length.to_le_bytes()[..],
        header.as_bytes(),
        &vec![0; numbers],
    ]
    .concat()
}

fn open(bytes: &[u8]) -> Result<Weights, (u64, String)> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.safetensors");
    std::fs::write(&path, bytes).unwrap();
    Weights::open(&path).map_err(|error| {
        let message = error.to_string();
        assert!(!message.contains(char::is_control), "{message}");
        match error {
            Error::Format { byte, .. } => (byte, message),
            _ => panic!("{message}"),
        }
    })
}

#[track_caller]
fn refused(bytes: &[u8], byte: u64, why: &str) {
    let (found, message) = open(bytes).unwrap_err();
    assert!(message.contains(why), "{message}");
    assert_eq!(found, byte, "{message}");
}

const TWO: &str = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}"#;

#[test]
fn what_breaks_the_format_is_refused_with_its_byte() {
    open(&file(TWO, 12)).unwrap();
    refused(
        b"",
        0,
        "the length of the header, 8 bytes, found the end of the file",
    );
    refused(b"1234567", 7, "the end of the file");
    refused(
        b"PK\x03\x04 a zip archive, and not a short one",
        0,
        "a safetensors file, with a header of at most 100000000 bytes",
    );
    refused(
        &u64::MAX.to_le_bytes(),
        0,
        "a header of at most 100000000 bytes, found a length of 18446744073709551615",
    );
    let cut = &file(TWO, 12)[..20];
    let found = format!("a header of {} bytes, found the end of the file", TWO.len());
    refused(cut, 20, &found);
    refused(
        b"emmy\r\n\x1a\n and more",
        0,
        "a safetensors file, found a checkpoint, which `store::load` reads",
    );
    refused(&file("", 0), 8, "a map from names to tensors, found EOF");
    refused(&file("[]", 0), 8, "expected a map");
    refused(&file("{} {}", 0), 11, "trailing characters");
    refused(&file("{}\n\n  }", 0), 14, "trailing characters");
    let bytes = [&[5, 0, 0, 0, 0, 0, 0, 0][..], b"{\"\xff\":"].concat();
    refused(&bytes, 10, "unicode");
    refused(
        &file(TWO, 11),
        8 + TWO.len() as u64 + 11,
        "12 bytes after the header, found the end of the file",
    );
    refused(
        &file(TWO, 13),
        8 + TWO.len() as u64 + 12,
        "12 bytes after the header, found more",
    );
}

/// One tensor, described so.
fn one(description: &str) -> Vec<u8> {
    file(&format!(r#"{{"a":{description}}}"#), 8)
}

#[test]
fn descriptions_that_cannot_be_are_refused_with_their_byte() {
    open(&one(r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#)).unwrap();
    for (description, byte, why) in [
        (
            r#"{"dtype":"F31","shape":[2],"data_offsets":[0,8]}"#,
            26,
            "the dtype, shape and data_offsets of 'a', found unknown variant `F31`",
        ),
        (
            r#"{"dtype":"F32","shape":[3],"data_offsets":[0,8]}"#,
            13,
            "'a' [3] of F32 in the bytes 0 to 8, found invalid shape",
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[8,0]}"#,
            13,
            "'a' [2] of F32 in the bytes 8 to 0, found invalid shape",
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[4,12]}"#,
            8,
            "begin where others end, found invalid offset for tensor `a`",
        ),
        (
            r#"{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,8]}"#,
            13,
            "'a' [4294967296, 4294967296] of F64 in the bytes 0 to 8, found overflow",
        ),
        (
            r#"{"dtype":"F4","shape":[3],"data_offsets":[0,8]}"#,
            13,
            "'a' [3] of F4 in the bytes 0 to 8, found The slice is slicing",
        ),
        (
            r#"{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}"#,
            38,
            "integer `-2`",
        ),
        (
            r#"{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}"#,
            39,
            "floating point",
        ),
        (
            r#"{"dtype":"F32","shape":[2]}"#,
            39,
            "missing field `data_offsets`",
        ),
        (
            r#"{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}"#,
            34,
            "duplicate field `dtype`",
        ),
        (r#""F32""#, 17, "the dtype, shape and data_offsets of 'a'"),
    ] {
        refused(&one(description), byte, why);
    }
    let overlap = TWO.replace("[8,12]", "[4,8]");
    refused(
        &file(&overlap, 8),
        8,
        "begin where others end, found invalid offset for tensor `b`",
    );
    let metadata = r#"{"__metadata__":{"a":1}}"#;
    refused(&file(metadata, 0), 29, "a map from texts to texts");
    // Brackets are counted, not descended into.
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    refused(&one(&deep), 14, "the dtype, shape and data_offsets of 'a'");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.safetensors");
    let metadata = format!(r#"{{"__metadata__":{{"config":"{deep}"}}}}"#);
    std::fs::write(&path, file(&metadata, 0)).unwrap();
    let error = Weights::open(&path).unwrap().config::<Vec<Vec<u8>>>();
    assert!(matches!(error, Err(Error::Invalid { .. })));
}

/// A file that claims to be large, with nothing in it.
#[test]
fn lengths_cost_no_memory() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.safetensors");
    for length in [1_u64 << 32, 100_000_001, u64::MAX - 7] {
        std::fs::write(&path, length.to_le_bytes()).unwrap();
        // A hole as long as the declared header, if the file system has sparse files.
        let hole = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let _ = hole.set_len(1 << 33);
        let error = Weights::open(&path).unwrap_err();
        assert!(matches!(error, Error::Format { byte: 0, .. }), "{error}");
        assert!(
            error.to_string().contains("at most 100000000 bytes"),
            "{error}"
        );
    }
    // 8 GB of numbers that no model needs are not read.
    let header = r#"{"big":{"dtype":"F64","shape":[1073741824],"data_offsets":[0,8589934592]}}"#;
    std::fs::write(&path, file(header, 0)).unwrap();
    let hole = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    if hole
        .set_len((8 + header.len()) as u64 + 8_589_934_592)
        .is_ok()
    {
        let error = weights::load_into(&path, &mut mlp::<f32>(0))
            .unwrap_err()
            .to_string();
        assert!(error.contains("unexpected  big [1073741824]"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_opened() {
    for path in ["/dev/zero", "/dev/null", "/"] {
        let error = Weights::open(path).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}

/// A file of a model, with a few changed bytes.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.safetensors");
    let names = [
        "mlp",
        "gatv2_shared",
        "encoder_pre",
        "normalised",
        "mlp_f16",
    ];
    weights::save(&path, &mlp::<f32>(0), &"a text").unwrap();
    let mut files = vec![std::fs::read(path).unwrap(), file(TWO, 12)];
    files.extend(names.map(|name| std::fs::read(fixture(name)).unwrap()));
    let change = (0..4_u8, any::<prop::sample::Index>(), any::<u8>());
    let changes = prop::collection::vec(change, 0..5);
    (prop::sample::select(files), changes).prop_map(|(mut bytes, changes)| {
        for (kind, at, value) in changes {
            // More often in the header than in the numbers.
            let header = usize::from(bytes[0]) + 256 * usize::from(bytes[1]) + 8;
            let end = if value % 4 > 0 {
                header.min(bytes.len())
            } else {
                bytes.len()
            };
            let at = at.index(end);
            match kind {
                0 => bytes[at] = value,
                1 => bytes[at] = b"0123456789{}[],:\""[usize::from(value) % 17],
                2 => bytes.insert(at, value),
                _ if bytes.len() > 2 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(proptest_cases(1000))]

    #[test]
    fn files_are_read_as_the_reference_reads_them(bytes in almost()) {
        match (open(&bytes), SafeTensors::deserialize(&bytes)) {
            (Ok(ours), Ok(theirs)) => {
                let mut names: Vec<_> = ours.keys().collect();
                let mut expected = theirs.names();
                names.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(&names, &expected);
                for name in names {
                    let theirs = theirs.tensor(name).unwrap();
                    prop_assert_eq!(ours.shape(name).unwrap(), theirs.shape());
                    let dtype = format!("{:?}", theirs.dtype());
                    prop_assert_eq!(ours.dtype(name).unwrap(), dtype);
                }
            }
            (Err((byte, _)), Err(_)) => prop_assert!(byte <= bytes.len() as u64),
            (Ok(_), Err(theirs)) => prop_assert!(false, "they refuse it: {theirs}"),
            (Err((_, ours)), Ok(_)) => prop_assert!(false, "we refuse it: {ours}"),
        }
    }

    /// Whatever is read, loading it into a model gives a result or an error.
    #[test]
    fn damaged_files_never_bring_a_model_down(bytes in almost()) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.safetensors");
        std::fs::write(&path, &bytes).unwrap();
        let mut model = mlp::<f32>(1);
        if let Err(error) = weights::load_into(&path, &mut model) {
            let known = matches!(error, Error::Format { .. } | Error::Weights { .. });
            prop_assert!(known, "{error}");
            let before = mlp::<f32>(1);
            prop_assert_eq!(model.tensors(), before.tensors());
        }
    }
}

/// All bit patterns, by the definition of IEEE 754.
#[test]
fn every_half_is_read() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("halves.safetensors");
    let data: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let view = TensorView::new(Dtype::F16, vec![1 << 16], &data).unwrap();
    let bytes = safetensors::serialize([("halves", view)], None).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let found = Weights::open(&path).unwrap().get::<f64>("halves").unwrap();
    for (bits, found) in (0..=u16::MAX).zip(&found) {
        let (e, m) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
        let expected = match e {
            31 if m != 0.0 => {
                assert!(found.is_nan());
                continue;
            }
            31 => sign * f64::INFINITY,
            0 => sign * m / 1024.0 * 2.0_f64.powi(-14),
            _ => sign * (1.0 + m / 1024.0) * 2.0_f64.powi(e - 15),
        };
        assert_eq!(found.to_bits(), expected.to_bits(), "{bits:#x}");
    }
}

/// The reference reads the files that are written here.
#[test]
fn the_reference_reads_what_is_written() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.safetensors");
    let model = mlp::<f32>(3);
    weights::save(&path, &model, &[0.5]).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let (length, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(length % 8, 0);
    assert_eq!(header.metadata().as_ref().unwrap()["config"], "[0.5]");
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.len(), 4);
    let weight = file.tensor("lins.0.weight").unwrap();
    let expected = model.layers[0].weight.iter().flat_map(|x| x.to_le_bytes());
    assert_eq!(weight.data(), expected.collect::<Vec<_>>());
}
