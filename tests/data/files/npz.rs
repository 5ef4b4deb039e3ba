//! A writer of `.npz` archives.

use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// An array as numpy stores it: header and elements, right or wrong.
pub fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").into_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// An archive of the given members, deflated.
pub fn archive(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Nodes and features of the small set.
pub const N: usize = 6;
pub const D: usize = 3;

pub fn i8(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|i| i.to_le_bytes()).collect()
}

/// The members of a small complete set, in upstream's order.
pub fn small_set() -> Vec<(&'static str, Vec<u8>)> {
    let features = (0..N * D).map(|k| f32::from(u8::from(k % 4 == 1)));
    let features: Vec<u8> = features.flat_map(f32::to_le_bytes).collect();
    let edges = i8(&[0, 1, 0, 5, 1, 2, 3, 4]);
    // Node i is in train, val or test of split k as (i + k) mod 3 says; byte 10 i + k.
    let mask = |which: usize| -> Vec<u8> {
        (0..10 * N)
            .map(|b| u8::from((b / 10 + b % 10) % 3 == which))
            .collect()
    };
    vec![
        ("node_features.npy", npy("<f4", false, "(6, 3)", &features)),
        (
            "node_labels.npy",
            npy("<i8", false, "(6,)", &i8(&[0, 1, 2, 0, 1, 1])),
        ),
        ("edges.npy", npy("<i8", false, "(4, 2)", &edges)),
        ("train_masks.npy", npy("|b1", true, "(10, 6)", &mask(0))),
        ("val_masks.npy", npy("|b1", true, "(10, 6)", &mask(1))),
        ("test_masks.npy", npy("|b1", true, "(10, 6)", &mask(2))),
    ]
}

/// The small set with one member replaced.
pub fn with(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    let mut members = small_set();
    let member = members.iter_mut().find(|(n, _)| *n == name).unwrap();
    member.1 = bytes;
    archive(&members)
}
