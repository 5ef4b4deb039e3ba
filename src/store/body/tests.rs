use super::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

fn encode(value: &impl Serialize) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, bincode::config::standard()).unwrap()
}

/// This decoder reads what bincode wrote, as bincode's own decoder does.
#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    let bytes = encode(&value);
    let theirs = bincode::serde::decode_from_slice::<T, _>(&bytes, bincode::config::standard());
    assert_eq!(theirs.unwrap(), (value, bytes.len()));
    let (again, read) = decode::<T>(&bytes).unwrap();
    assert_eq!((encode(&again), read), (bytes.clone(), bytes.len()));
    for len in 0..bytes.len() {
        assert!(decode::<T>(&bytes[..len]).is_err(), "{len} of {bytes:?}");
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
    for n in [0, 1, 250, 251, 255, 256, 65_535, 65_536, 1 << 32, u64::MAX] {
        comes_back((
            n as u8,
            n as u16,
            n as u32,
            n,
            n as usize,
            u128::from(n) << 40,
        ));
        let n = n as i64;
        comes_back((n as i8, n as i16, n as i32, n, i128::from(n) * 3, -n.max(0)));
    }
    comes_back((i64::MIN, i128::MIN, i128::MAX, u128::MAX, i16::MIN));
    comes_back((1.5_f32, -0.0_f64, f64::INFINITY, true, false, ()));
    comes_back(['a', 'é', '→', '🦀']);
    comes_back((String::new(), "né".to_owned(), vec![vec![1_u64, 2], vec![]]));
    comes_back(BTreeMap::from([
        ("a".to_owned(), 1.0),
        ("b".to_owned(), 2.0),
    ]));
    let inner = Kind::Named { a: 'ß', b: None };
    comes_back(vec![
        Kind::Nothing,
        Kind::One("x".into()),
        Kind::Two(3, -4),
        Kind::Named {
            a: '→',
            b: Some(Box::new(inner)),
        },
    ]);
    comes_back((Marker, Wrapped(2.0), Some(Wrapped(3.0)), None::<u8>));
    comes_back(crate::tensor::tensor(
        &[2, 3],
        vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0],
    ));
}

#[track_caller]
fn refused<T: DeserializeOwned + Debug>(bytes: &[u8], at: usize, why: &str) {
    let (found, message) = decode::<T>(bytes).unwrap_err();
    assert!(message.contains(why), "{message}");
    assert_eq!(found, at, "{message}");
}

#[test]
fn what_is_wrong_is_said_with_its_byte() {
    refused::<(u8, String)>(&[7, 5, b'a'], 1, "a length of 5, and 1 bytes are left");
    let long = [&[253][..], &u64::MAX.to_le_bytes()].concat();
    refused::<Vec<f32>>(&long, 0, "a length of 18446744073709551615");
    refused::<BTreeMap<u8, u8>>(&[9, 1, 1], 0, "a length of 9");
    refused::<(u8, f64)>(&[7, 1, 2], 1, "2 bytes are left, 8 are needed");
    refused::<u16>(
        &[252, 0, 0, 1, 0],
        5,
        "65536, which is out of range for u16",
    );
    refused::<i16>(
        &[252, 0, 0, 1, 0],
        5,
        "32768, which is out of range for i16",
    );
    refused::<u32>(&[255], 1, "byte 255");
    refused::<bool>(&[2], 1, "2 where 0 or 1 must be");
    refused::<String>(&[1, 0xff], 1, "not UTF-8");
    refused::<char>(&[0xff, 0, 0, 0], 4, "not UTF-8");
    refused::<Kind>(&[4], 1, "variant");
    refused::<serde::de::IgnoredAny>(&[4], 0, "not known beforehand");
}
