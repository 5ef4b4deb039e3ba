//! Damaged files: bytes that are cut off, changed, inserted or doubled.

use super::*;
use crate::cases::proptest_cases;
use proptest::prelude::*;

/// Cuts, overwrites, inserts and doubles of bytes.
#[derive(Debug, Clone)]
enum Damage {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    Truncate(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Double(prop::sample::Index, prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(i, x)| Damage::Set(i, x)),
        (at(), 0..8u8).prop_map(|(i, bit)| Damage::Flip(i, 1 << bit)),
        at().prop_map(Damage::Truncate),
        (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(i, x)| Damage::Insert(i, x)),
        (at(), at()).prop_map(|(i, j)| Damage::Double(i, j)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &[Damage]) {
    for damage in damage {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match damage {
            Damage::Set(i, x) => bytes[i.index(len)] = *x,
            Damage::Flip(i, mask) => bytes[i.index(len)] ^= mask,
            Damage::Truncate(i) => bytes.truncate(i.index(len)),
            Damage::Insert(i, x) => {
                let i = i.index(len);
                bytes.splice(i..i, x.iter().copied());
            }
            Damage::Double(i, j) => {
                let (i, j) = (i.index(len), j.index(len));
                let part = bytes[i.min(j)..i.max(j)].to_vec();
                bytes.extend(part);
            }
        }
    }
}

proptest! {
    #![proptest_config(proptest_cases(400))]

    #[test]
    fn damaged_pickles_never_bring_the_reader_down(
        part in prop::sample::select(&PARTS[..]),
        damage in prop::collection::vec(damage(), 1..6),
    ) {
        let set = Planetoid::new();
        let mut bytes = files::small_set()[part].clone();
        apply(&mut bytes, &damage);
        if let Some((file, byte)) = place(set.with(part, &bytes)) {
            prop_assert!(file.file_name().unwrap().to_str().unwrap().starts_with("ind.pubmed."));
            let len = std::fs::metadata(&file).unwrap().len().max(bytes.len() as u64);
            prop_assert!(byte <= len, "byte {byte} of a file of {len}");
        }
    }

    #[test]
    fn damaged_archives_never_bring_the_reader_down(
        damage in prop::collection::vec(damage(), 1..6),
    ) {
        let folder = TempDir::new().unwrap();
        let mut bytes = npz::archive(&npz::small_set());
        apply(&mut bytes, &damage);
        if let Some((file, _)) = place(npz_with(folder.path(), &bytes)) {
            prop_assert!(file.to_str().unwrap().contains("texas.npz"));
        }
    }

    /// The archive is complete, but a member is not what its header says.
    #[test]
    fn damaged_members_never_bring_the_reader_down(
        member in 0..6usize,
        damage in prop::collection::vec(damage(), 1..6),
    ) {
        let folder = TempDir::new().unwrap();
        let (name, mut bytes) = npz::small_set().swap_remove(member);
        apply(&mut bytes, &damage);
        place(npz_with(folder.path(), &npz::with(name, bytes)));
    }

    #[test]
    fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), part in prop::sample::select(&PARTS[..7])) {
        prop_assert!(place(Planetoid::new().with(part, &bytes)).is_some());
        let folder = TempDir::new().unwrap();
        prop_assert!(place(npz_with(folder.path(), &bytes)).is_some());
    }
}

#[test]
fn every_truncation_is_refused() {
    let set = Planetoid::new();
    for part in PARTS {
        let whole = &files::small_set()[part];
        // The last line of test.index may lack its line feed.
        let shortest_whole = whole.len() - usize::from(part == "test.index");
        // One part is cut at every byte, the others at every byte of both ends and at some places
        // in between.
        let (ends, step) = if part == "y" { (0, 1) } else { (30, 97) };
        let ends = ends.min(shortest_whole / 2);
        let inner = (ends..shortest_whole - ends).step_by(step);
        for len in (0..ends)
            .chain(inner)
            .chain(shortest_whole - ends..shortest_whole)
        {
            let (file, byte) = place(set.with(part, &whole[..len])).expect("cut short");
            assert!(byte <= len as u64, "byte {byte} of {len}");
            let named = file.ends_with(format!("ind.pubmed.{part}"));
            assert!(named, "{part} cut to {len}: {}", file.display());
        }
    }
    let folder = TempDir::new().unwrap();
    let whole = npz::archive(&npz::small_set());
    let ends = (0..100).chain(whole.len() - 300..whole.len());
    for len in ends.chain((100..whole.len() - 300).step_by(11)) {
        let (file, byte) = place(npz_with(folder.path(), &whole[..len])).expect("cut short");
        assert!(file.ends_with("texas.npz") && byte <= len as u64);
    }
}

/// Files that are cut, or have a changed byte, at twelve places; a cut file is never complete.
fn damaged_in_the_middle(whole: &[u8], mut load: impl FnMut(&[u8]) -> Option<(PathBuf, u64)>) {
    for k in 0..12 {
        let mut bytes = whole.to_vec();
        let at = bytes.len() * k / 12;
        if k % 2 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 0x55;
        }
        let found = load(&bytes);
        assert!(k % 2 == 1 || found.is_some(), "cut at {at}");
    }
}

#[test]
fn real_files_damaged_in_the_middle_are_refused_or_read() {
    let Some(data) = files::published() else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let path = |part: &str| folder.path().join(format!("ind.cora.{part}"));
    for part in PARTS {
        let from = data.join("planetoid").join(format!("ind.cora.{part}"));
        std::fs::copy(from, path(part)).unwrap();
    }
    for part in PARTS {
        let whole = std::fs::read(path(part)).unwrap();
        damaged_in_the_middle(&whole, |bytes| {
            std::fs::write(path(part), bytes).unwrap();
            place(planetoid::load(folder.path(), "cora"))
        });
        std::fs::write(path(part), whole).unwrap();
    }
    for name in ["texas", "cornell", "wisconsin", "chameleon"] {
        let whole = std::fs::read(data.join("heterophilic").join(format!("{name}.npz"))).unwrap();
        damaged_in_the_middle(&whole, |bytes| place(npz_with(folder.path(), bytes)));
    }
}
