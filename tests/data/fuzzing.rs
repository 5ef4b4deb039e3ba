//! Files that are almost right: data files and checkpoints with a few changes that depend on their format.
//! Each must be refused with an error or read, and a training on the data that were read must work.
//!
//! `cargo test` tries such files for two seconds, `EMMY_FUZZ_SECONDS=120 cargo test --test data fuzzing` for
//! longer, and `EMMY_FUZZ_SEED=7` tries others. If a file makes a reader panic, it is kept in
//! `target/tmp/fuzzing/`; so is the last file if the process was ended. Move such a file to
//! `tests/regressions/`: every `cargo test` then reads it.

use crate::files::{self, npz};
use emmy::data::{self, Dataset, Direction, heterophilic, planetoid};
use emmy::init::{self, Rng};
use emmy::nn::{GraphNet, GraphNetConfig};
use emmy::rand::RngExt;
use emmy::train::{NodeClassification, TrainConfig, TrainState, Trainer};
use emmy::{Error, store};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file to read.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A part of a citation set, among seven good ones.
    Planetoid(&'static str),
    Npz,
    Checkpoint,
}

const KINDS: [Kind; 10] = [
    Kind::Planetoid("x"),
    Kind::Planetoid("allx"),
    Kind::Planetoid("tx"),
    Kind::Planetoid("y"),
    Kind::Planetoid("ally"),
    Kind::Planetoid("ty"),
    Kind::Planetoid("graph"),
    Kind::Planetoid("test.index"),
    Kind::Npz,
    Kind::Checkpoint,
];

impl Kind {
    fn file(self) -> String {
        match self {
            Self::Planetoid(part) => format!("ind.pubmed.{part}"),
            Self::Npz => "texas.npz".into(),
            Self::Checkpoint => "run.ckpt".into(),
        }
    }
}

/// A folder with good files, of which one at a time is replaced.
struct Files {
    folder: PathBuf,
    good: BTreeMap<String, Vec<u8>>,
}

/// The outcome of reading a file.
#[derive(Debug, PartialEq)]
enum Outcome {
    Refused,
    Read,
    Panicked,
}

impl Files {
    fn new(folder: PathBuf) -> Self {
        let _ = std::fs::remove_dir_all(&folder);
        files::write_parts(&folder, "pubmed", &files::small_set());
        std::fs::write(folder.join("texas.npz"), npz::archive(&npz::small_set())).unwrap();
        let state = training(&data::karate(), 3, None).unwrap().unwrap();
        store::save::<f32>(&folder.join("run.ckpt"), &state).unwrap();
        let good = KINDS.map(|kind| {
            (
                kind.file(),
                std::fs::read(folder.join(kind.file())).unwrap(),
            )
        });
        Self {
            folder,
            good: good.into(),
        }
    }

    /// Reads a file in place of the good one.
    fn read(&self, kind: Kind, bytes: &[u8]) -> Outcome {
        let path = self.folder.join(kind.file());
        std::fs::write(&path, bytes).unwrap();
        let found = catch_unwind(AssertUnwindSafe(|| read(&self.folder, kind)));
        std::fs::write(&path, &self.good[&kind.file()]).unwrap();
        match found {
            Ok(Ok(())) => Outcome::Read,
            Ok(Err(error)) => {
                assert!(matches!(error, Error::Format { .. }), "{error}");
                assert!(!error.to_string().contains(char::is_control), "{error:?}");
                Outcome::Refused
            }
            Err(_) => Outcome::Panicked,
        }
    }
}

/// Reads a file, and trains on its data. The training may end with an error if the data do not fit.
fn read(folder: &Path, kind: Kind) -> emmy::Result<()> {
    let set = match kind {
        Kind::Planetoid(_) => planetoid::load(folder, "pubmed")?,
        Kind::Npz => heterophilic::load(folder, "texas", Direction::Symmetrised)?,
        Kind::Checkpoint => {
            let state: TrainState<f32> = store::load::<f32, _>(&folder.join("run.ckpt"))?;
            let more = state.epochs().saturating_add(1);
            let _ = training(&data::karate(), more, Some(state));
            return Ok(());
        }
    };
    let _ = training(&set, 1, None);
    Ok(())
}

/// The end of a training, or the reason why there is none; `None` if there are too many data for a test.
fn training(
    set: &Dataset,
    epochs: usize,
    from: Option<TrainState<f32>>,
) -> emmy::Result<Option<TrainState<f32>>> {
    if set.nodes() > 2000 || set.feature_count() > 2000 || set.graph.edges() > 20_000 {
        return Ok(None);
    }
    let config = GraphNetConfig {
        hidden: 4,
        ..GraphNetConfig::gcn(set.feature_count(), set.classes)
    };
    let (x, neighbours) = (
        set.normalized_features::<f32>(),
        config.neighbourhood(&set.graph),
    );
    let task = NodeClassification::new(&set.labels, &set.splits[0], |net: &GraphNet<_>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    })?;
    let how = TrainConfig {
        epochs,
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(GraphNet::new(config, 0)?, how)?.described("karate");
    if let Some(state) = from {
        trainer.resume(state)?;
    }
    trainer.fit(&task, |_, _| Ok(()))?;
    Ok(Some(trainer.state()))
}

/// Numbers at which errors of readers are likely.
const TELLING: [u64; 20] = [
    0,
    1,
    2,
    3,
    127,
    128,
    250,
    255,
    256,
    0x7fff,
    0xffff,
    0x1_0000,
    0x10_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 62,
    1 << 63,
    u64::MAX,
];

fn telling(rng: &mut Rng) -> u64 {
    TELLING[rng.random_range(0..TELLING.len())]
}

/// Bytes i..j, not empty, of at most `most`.
fn part(bytes: &[u8], most: usize, rng: &mut Rng) -> Range<usize> {
    let start = rng.random_range(0..bytes.len());
    let end = (start + rng.random_range(1..=most)).min(bytes.len());
    start..end
}

/// Changes that know no format.
fn scramble(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.random_range(1..4) {
        if bytes.is_empty() {
            return;
        }
        let at = part(bytes, 64, rng);
        match rng.random_range(0..7) {
            0 => bytes[at.start] = rng.random(),
            1 => bytes[at.start] ^= 1 << rng.random_range(0..8),
            2 => bytes.truncate(at.end),
            3 => drop(bytes.drain(at)),
            4 => {
                let copy = bytes[at.clone()].repeat(rng.random_range(1..50));
                bytes.splice(at.start..at.start, copy);
            }
            5 => {
                let other = part(bytes, 64, rng);
                let copy = bytes[other].to_vec();
                bytes.splice(at, copy);
            }
            _ => overwrite(bytes, at.start, telling(rng), rng),
        }
    }
}

/// A number of four or eight bytes in place of what is there.
fn overwrite(bytes: &mut [u8], at: usize, number: u64, rng: &mut Rng) {
    let number = number.to_le_bytes();
    let width = if rng.random() { 4 } else { 8 };
    for (byte, new) in bytes[at..].iter_mut().zip(&number[..width]) {
        *byte = *new;
    }
}

/// The opcodes of a pickle with their arguments, up to one that no published file has.
fn opcodes(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(&code) = bytes.get(at) {
        let rest = &bytes[at + 1..];
        let length = match code {
            0x80 | b'q' | b'h' | b'K' => 1,
            b'M' => 2,
            b'r' | b'J' => 4,
            b'U' => 1 + rest.first().map_or(0, |&len| usize::from(len)),
            b'T' => {
                let len = rest.first_chunk().map_or(0, |len| u32::from_le_bytes(*len));
                4 + len as usize
            }
            b'c' => {
                let lines = rest.split_inclusive(|&b| b == b'\n').take(2);
                lines.map(<[u8]>::len).sum()
            }
            _ => 0,
        };
        let end = (at + 1 + length).min(bytes.len());
        all.push(at..end);
        at = end;
    }
    all
}

/// Other numbers, opcodes in another order, other elements of arrays.
fn change_pickle(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let all = opcodes(bytes);
    let of = |codes: &[u8]| -> Vec<Range<usize>> {
        let found = all
            .iter()
            .filter(|range| codes.contains(&bytes[range.start]));
        found.cloned().collect()
    };
    let pick = |all: &[Range<usize>], rng: &mut Rng| all[rng.random_range(0..all.len())].clone();
    let (numbers, strings) = (of(b"KMJ"), of(b"UT"));
    match rng.random_range(0..7) {
        0 | 1 if !numbers.is_empty() => {
            let mut number = vec![b'J'];
            number.extend((telling(rng) as u32).to_le_bytes());
            bytes.splice(pick(&numbers, rng), number);
        }
        2 | 3 if !strings.is_empty() => {
            let string = pick(&strings, rng);
            let at = rng.random_range(string.clone());
            let end = string.end;
            overwrite(&mut bytes[at..end], 0, telling(rng), rng);
        }
        4 => drop(bytes.drain(pick(&all, rng))),
        5 => {
            let copy = bytes[pick(&all, rng)].repeat(rng.random_range(1..4));
            let at = pick(&all, rng).start;
            bytes.splice(at..at, copy);
        }
        6 => {
            let (copy, at) = (bytes[pick(&all, rng)].to_vec(), pick(&all, rng));
            bytes.splice(at, copy);
        }
        _ => scramble(bytes, rng),
    }
}

/// Members that are missing, duplicate, or have another content; the archive itself is intact.
fn changed_archive(rng: &mut Rng) -> Vec<u8> {
    let mut members = npz::small_set();
    for _ in 0..rng.random_range(1..3) {
        if members.is_empty() {
            break;
        }
        let k = rng.random_range(0..members.len());
        let bytes = &mut members[k].1;
        match rng.random_range(0..8) {
            // The shape.
            0..=2 if bytes.len() > 128 => {
                let header = String::from_utf8_lossy(&bytes[10..128]).into_owned();
                let (before, shape) = header.split_at(header.find("'shape'").unwrap_or(0));
                let digits: Vec<usize> = (shape.char_indices())
                    .filter(|(_, c)| c.is_ascii_digit())
                    .map(|(at, _)| at)
                    .collect();
                if !digits.is_empty() {
                    let at = digits[rng.random_range(0..digits.len())];
                    let (head, tail) = (&shape[..at], &shape[at + 1..]);
                    let text = format!("{before}{head}{}{tail}", telling(rng));
                    let blanks = text.trim_end().to_owned();
                    bytes.splice(10..128, format!("{blanks:<117}\n").into_bytes());
                    let length = (bytes.len() as u16).min(118).to_le_bytes();
                    bytes[8..10].copy_from_slice(&length);
                }
            }
            // An element.
            3 | 4 if bytes.len() > 128 => {
                let at = rng.random_range(128..bytes.len());
                overwrite(bytes, at, telling(rng), rng);
            }
            5 => scramble(bytes, rng),
            6 => drop(members.remove(k)),
            _ => {
                let (from, to) = (rng.random_range(0..members.len()), k);
                members[to].1 = members[from].1.clone();
            }
        }
    }
    npz::archive(&members)
}

/// Other lengths and numbers in the body, and mostly a header that fits it.
fn change_checkpoint(bytes: &mut Vec<u8>, rng: &mut Rng) {
    const HEADER: usize = 28;
    let mut body = bytes.split_off(HEADER);
    for _ in 0..rng.random_range(1..3) {
        match rng.random_range(0..3) {
            // A number of eight bytes as lengths are, or of four.
            0 | 1 if !body.is_empty() => {
                let at = rng.random_range(0..body.len());
                overwrite(&mut body, at, telling(rng), rng);
            }
            _ => scramble(&mut body, rng),
        }
    }
    if rng.random_bool(0.95) {
        bytes[16..24].copy_from_slice(&(body.len() as u64).to_le_bytes());
        bytes[24..28].copy_from_slice(&crc32fast::hash(&body).to_le_bytes());
    }
    bytes.extend(body);
    if rng.random_bool(0.02) {
        scramble(bytes, rng);
    }
}

/// A file that is almost right.
fn almost(kind: Kind, good: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = good.to_vec();
    match kind {
        Kind::Planetoid("test.index") => scramble(&mut bytes, rng),
        Kind::Planetoid(_) => {
            for _ in 0..rng.random_range(1..3) {
                match bytes.is_empty() {
                    true => break,
                    false => change_pickle(&mut bytes, rng),
                }
            }
        }
        Kind::Npz if rng.random_bool(0.8) => bytes = changed_archive(rng),
        Kind::Npz => scramble(&mut bytes, rng),
        Kind::Checkpoint => change_checkpoint(&mut bytes, rng),
    }
    bytes
}

#[test]
fn files_that_are_almost_right_are_refused_or_read() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |s| s.parse().unwrap());
    let time = Duration::from_secs(number("EMMY_FUZZ_SECONDS", 1));
    let rng = &mut init::rng(number("EMMY_FUZZ_SEED", 0));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzzing");
    let files = Files::new(folder.join("set"));
    let start = Instant::now();
    let mut counts = BTreeMap::<String, [usize; 2]>::new();
    while start.elapsed() < time {
        for kind in KINDS {
            let bytes = almost(kind, &files.good[&kind.file()], rng);
            let count = counts.entry(kind.file()).or_default();
            match files.read(kind, &bytes) {
                Outcome::Refused => count[0] += 1,
                Outcome::Read => count[1] += 1,
                Outcome::Panicked => {
                    let kept = folder.join(kind.file());
                    std::fs::write(&kept, bytes).unwrap();
                    panic!(
                        "a reader panicked, see above; the file is kept: {}",
                        kept.display()
                    );
                }
            }
        }
    }
    for (file, [refused, read]) in &counts {
        println!("{file}: {refused} refused, {read} read and trained on");
        assert!(*refused > 0, "{file}");
    }
}

/// `tests/regressions/planetoid/PART@NAME`, `npz/NAME`, `checkpoint/NAME`.
#[test]
fn files_that_were_found_once_are_refused_or_read() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let files = Files::new(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept"));
    let mut count = 0;
    for folder in ["planetoid", "npz", "checkpoint"] {
        for entry in kept.join(folder).read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let kind = KINDS.into_iter().find(|kind| match kind {
                Kind::Planetoid(part) => {
                    folder == "planetoid" && name.split('@').next() == Some(part)
                }
                Kind::Npz => folder == "npz",
                Kind::Checkpoint => folder == "checkpoint",
            });
            let kind = kind.unwrap_or_else(|| panic!("{name} begins with no part of a set"));
            let found = files.read(kind, &std::fs::read(&path).unwrap());
            assert_ne!(found, Outcome::Panicked, "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 4, "{count} files");
}

#[test]
fn the_good_files_are_read() {
    let folder = tempfile::TempDir::new().unwrap();
    let files = Files::new(folder.path().join("set"));
    for kind in KINDS {
        let good = &files.good[&kind.file()];
        assert_eq!(files.read(kind, good), Outcome::Read, "{kind:?}");
    }
    // The walk over opcodes knows the pickles.
    let all = opcodes(&files.good["ind.pubmed.x"]);
    assert!(all.len() > 50 && all.last().unwrap().len() == 1);
}
