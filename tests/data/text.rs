//! Texts: the published ones with their known counts, files that are refused.

use crate::files::{published, refused};
use emmy::Error;
use emmy::data::text::{self, Text};
use std::path::Path;
use tempfile::TempDir;

/// The CRC-32 of a part in UTF-8.
fn checksum(text: &Text, part: &[u16]) -> u32 {
    crc32fast::hash(text.decode(part).as_bytes())
}

#[test]
fn tiny_shakespeare_has_its_known_counts() {
    let Some(folder) = published() else { return };
    for folder in [folder.join("tinyshakespeare"), folder] {
        let text = text::tiny_shakespeare(Some(&folder)).unwrap();
        let lengths = [&text.train, &text.validation, &text.test].map(Vec::len);
        assert_eq!(lengths, [1_003_854, 111_540, 0]);
        assert_eq!(text.source, "tinyshakespeare");
        let symbols: String = text.symbols.iter().collect();
        let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        assert_eq!(symbols, format!("\n !$&',-.3:;?{letters}"));
        let whole = [&text.train[..], &text.validation].concat();
        // The file, sha256 86c4e6aa…, byte for byte.
        assert_eq!(checksum(&text, &whole), 0xdf61_3551);
    }
}

#[test]
fn penn_treebank_has_its_known_counts() {
    let Some(folder) = published() else { return };
    let text = text::penn_treebank(Some(&folder)).unwrap();
    let parts = [&text.train, &text.validation, &text.test];
    assert_eq!(parts.map(Vec::len), [5_017_482, 393_042, 442_423]);
    let symbols: String = text.symbols.iter().collect();
    assert_eq!(
        symbols,
        "\n#$&'*-./0123456789<>N\\_abcdefghijklmnopqrstuvwxyz"
    );
    // With a blank after each symbol these are the files ptb.char.*.txt of tomsercu/lstm, whose hashes as git
    // blobs, 84b890a8… and 940c7ea5…, were compared once.
    let found = parts.map(|part| checksum(&text, part));
    assert_eq!(found, [0xc5d3_745f, 0xd9d3_2101, 0x324d_7597]);
    let lines = |part: &[u16]| text.decode(part).lines().count();
    assert_eq!(parts.map(|part| lines(part)), [42_068, 3_370, 3_761]);
}

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), content).unwrap();
}

#[test]
fn sentences_are_spelled_out() {
    let folder = TempDir::new().unwrap();
    let ptb = folder.path().join("ptb");
    write(&ptb, "ptb.train.txt", " the <unk> is N \n a cat \n");
    write(&ptb, "ptb.valid.txt", " is a \n");
    write(&ptb, "ptb.test.txt", " the cat \n");
    let text = text::penn_treebank(Some(folder.path())).unwrap();
    assert_eq!(text.decode(&text.train), "the_<unk>_is_N\na_cat\n");
    assert_eq!(text.decode(&text.validation), "is_a\n");
    assert_eq!(text.decode(&text.test), "the_cat\n");

    // A model cannot have learnt characters that are not in the training text.
    write(&ptb, "ptb.test.txt", " a dog \n");
    let error = text::penn_treebank(Some(folder.path())).unwrap_err();
    let expected = "ptb: test text: expected characters among the 15 symbols of the text, found \
                    'd' (U+0064) as character 3";
    assert_eq!(error.to_string(), expected);
    for (content, byte, expected) in [
        (&b" a \nb \n"[..], 4, "a space before each sentence"),
        (b" a\n", 2, "a space behind each sentence"),
        (b" a \n b", 6, "the end of the line"),
        (b" a \n b  c \n", 7, "one space between two words"),
        (b"  a \n", 1, "one space between two words"),
        (b" a \xff \n", 3, "text in UTF-8, found the byte 0xff"),
    ] {
        write(&ptb, "ptb.test.txt", content);
        let found = text::penn_treebank(Some(folder.path()));
        refused(found, "ptb.test.txt", byte, expected);
    }
}

#[test]
fn missing_texts_are_looked_for_in_two_places() {
    let folder = TempDir::new().unwrap();
    let ptb = folder.path().join("ptb");
    // Two of three files are not the text.
    write(&ptb, "ptb.train.txt", " a \n");
    write(&ptb, "ptb.valid.txt", " a \n");
    let found = [
        (text::tiny_shakespeare(Some(folder.path())), "input.txt"),
        (text::penn_treebank(Some(folder.path())), "ptb.test.txt"),
    ];
    for (found, file) in found {
        let error = found.unwrap_err();
        let Error::NotFound {
            looked, address, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(looked.len(), 2, "{error}");
        assert!(address.starts_with("https://") && address.ends_with(file));
    }
}

#[test]
fn any_file_in_utf_8_is_a_text() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, "äbcäbcäbcäbcäbcäbcäb€").unwrap();
    let text = text::from_file(&path).unwrap();
    // 21 characters, of which 18 train; the last occurs in no other part.
    assert_eq!(text.symbols, ['b', 'c', 'ä', '€']);
    assert_eq!(text.decode(&text.train), "äbcäbcäbcäbcäbcäbc");
    assert_eq!(text.decode(&text.validation), "äb€");
    assert!(text.test.is_empty());
    assert_eq!(text.encode("prompt", "c€").unwrap(), [1, 3]);
    let error = text.encode("prompt", "bcd").unwrap_err().to_string();
    assert_eq!(
        error,
        "prompt: expected characters among the 4 symbols of the text, found 'd' (U+0064) as character 3"
    );
    assert!(text.encode("prompt", "\u{1f600}").is_err());

    std::fs::write(&path, b"0123456789abc\xc3(").unwrap();
    refused(
        text::from_file(&path),
        "text",
        13,
        "text in UTF-8, found the byte 0xc3",
    );
    for (content, reason) in [
        ("", "expected a text, found no character"),
        ("0123456789", "at least 11 characters"),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = text::from_file(&path).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    std::fs::write(&path, "01234567890").unwrap();
    assert_eq!(text::from_file(&path).unwrap().validation.len(), 2);
    let error = text::from_file(folder.path()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let many: String = (0..70_000_u32).filter_map(char::from_u32).collect();
    let error = Text::split("many", &many).unwrap_err().to_string();
    assert!(
        error.contains("at most 65536 different characters"),
        "{error}"
    );
}

#[test]
fn a_text_takes_given_symbols() {
    let symbols: Vec<char> = "zéa ".chars().collect();
    let text = Text::with_symbols("notes", symbols.clone(), "a é", "zz", "").unwrap();
    assert_eq!(
        (&text.train, &text.validation),
        (&vec![2, 3, 1], &vec![0, 0])
    );
    assert_eq!(text.decode(&text.train), "a é");
    assert_eq!(text.symbols, symbols);

    // The text of a file in the symbols of another one: the same characters, other numbers.
    let own = Text::split("own", &"a éa".repeat(5)).unwrap();
    let given = own.recoded(symbols.clone()).unwrap();
    assert_eq!((own.train[0], given.train[0]), (1, 2));
    for (a, b) in [
        (&own.train, &given.train),
        (&own.validation, &given.validation),
    ] {
        assert_eq!(own.decode(a), given.decode(b));
    }
    assert_eq!(given.recoded(own.symbols.clone()).unwrap(), own);

    let other = Text::split("other", &"a new é".repeat(5)).unwrap();
    let error = other.recoded(symbols).unwrap_err().to_string();
    let expected = "other: training text: expected characters among the 4 given symbols, found 'n' \
                    (U+006E) as character 3";
    assert_eq!(error, expected);
    for (symbols, reason) in [
        ("", "notes: symbols: expected at least one"),
        (
            "aéa",
            "notes: symbols: expected each character once, found 'a' twice",
        ),
        ("ézé", "found 'é' twice"),
    ] {
        let error = Text::with_symbols("notes", symbols.chars().collect(), "", "", "");
        let error = error.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
