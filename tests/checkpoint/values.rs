//! Every kind of value comes back from a checkpoint, and a body that is not that value is refused with its
//! byte.

use super::*;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The first bytes of a checkpoint of `f32`: the mark, the version, the type.
fn beginning(path: &Path) -> Vec<u8> {
    store::save::<f32>(path, &()).unwrap();
    std::fs::read(path).unwrap()[..16].to_vec()
}

/// A checkpoint with this body and the right checksum. It is not synced, which takes longer than all else.
fn forge(path: &Path, beginning: &[u8], body: &[u8]) {
    let length = (body.len() as u64).to_le_bytes();
    let sum = crc32fast::hash(body).to_le_bytes();
    std::fs::write(path, [beginning, &length, &sum, body].concat()).unwrap();
}

/// It comes back, and no beginning of it is taken for the whole.
#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.ckpt");
    store::save::<f32>(&path, &value).unwrap();
    assert_eq!(store::load::<f32, T>(&path).unwrap(), value);
    let mut bytes = std::fs::read(&path).unwrap();
    let body = bytes.split_off(28);
    for len in 0..body.len() {
        forge(&path, &bytes[..16], &body[..len]);
        let found = store::load::<f32, T>(&path);
        assert!(found.is_err(), "{len} of {body:?}");
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Kind {
    Nothing,
    One(String),
    Two(u8, i64),
    Named { a: char, b: Option<Box<Kind>> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Marker;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Wrapped(f32);

#[test]
fn every_kind_of_value_comes_back() {
    for n in [0, 1, 127, 128, 255, 65_535, 65_536, 1 << 32, u64::MAX] {
        let wide = u128::from(n) << 40;
        comes_back((n as u8, n as u16, n as u32, n, n as usize, wide));
        let n = n as i64;
        comes_back((n as i8, n as i16, n as i32, n, i128::from(n) * 3, -n.max(0)));
    }
    comes_back((i64::MIN, i128::MIN, i128::MAX, u128::MAX, i16::MIN));
    comes_back((1.5_f32, -0.0_f64, f64::INFINITY, true, false, ()));
    comes_back(['a', 'é', '→', '🦀']);
    comes_back((String::new(), "né".to_owned(), vec![vec![1_u64, 2], vec![]]));
    let map = [("a".to_owned(), 1.0), ("b".to_owned(), 2.0)];
    comes_back(BTreeMap::from(map));
    let b = Some(Box::new(Kind::Named { a: 'ß', b: None }));
    comes_back(vec![
        Kind::Nothing,
        Kind::One("x".into()),
        Kind::Two(3, -4),
        Kind::Named { a: '→', b },
    ]);
    comes_back((Marker, Wrapped(2.0), Some(Wrapped(3.0)), None::<u8>));
    let numbers = vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    comes_back(emmy::tensor::tensor(&[2, 3], numbers));
}

#[track_caller]
fn refused<T: DeserializeOwned + Debug>(body: &[u8], at: u64, why: &str) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.ckpt");
    forge(&path, &beginning(&path), body);
    let error = store::load::<f32, T>(&path).unwrap_err();
    let message = error.to_string();
    assert!(message.contains(why), "{message}");
    assert!(message.contains(std::any::type_name::<T>()), "{message}");
    assert!(
        matches!(error, Error::Format { byte, .. } if byte == 28 + at),
        "{message}"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_byte() {
    let length = |n: u64, rest: &[u8]| [&n.to_le_bytes(), rest].concat();
    refused::<(u8, String)>(
        &[&[7], &length(5, b"a")[..]].concat(),
        10,
        "the end of the body",
    );
    refused::<String>(&length(u64::MAX, b""), 8, "beyond the body");
    refused::<String>(&length(1 << 20, b""), 8, "beyond the body");
    refused::<String>(&length(1 << 19, b""), 8, "the end of the body");
    refused::<Vec<f32>>(&length(u64::MAX, b""), 8, "the end of the body");
    refused::<BTreeMap<u8, u8>>(&length(9, &[1, 1]), 10, "the end of the body");
    refused::<(u8, f64)>(&[7, 1, 2], 3, "the end of the body");
    refused::<bool>(&[2], 1, "InvalidBooleanValue(2)");
    refused::<Option<u8>>(&[2], 1, "Option");
    refused::<String>(&length(1, &[0xff]), 9, "Utf8");
    refused::<char>(&[0xff], 1, "InvalidCharEncoding");
    refused::<Kind>(&[4, 0, 0, 0], 4, "integer `4`, expected variant index");
    refused::<IgnoredAny>(&[4], 0, "AnyNotSupported");
}

#[test]
fn a_body_of_every_size_fits_its_limit() {
    for letters in [0x10_0000 - 8, 0x10_0000, 0x400_0000 - 8, 0x400_0000] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.ckpt");
        let value = "é".repeat(letters / 2);
        store::save::<f32>(&path, &value).unwrap();
        assert!(
            store::load::<f32, String>(&path).unwrap() == value,
            "{letters}"
        );
    }
}
