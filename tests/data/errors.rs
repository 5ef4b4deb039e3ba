//! Messages of errors.

use emmy::error::{Error, printable};
use emmy::store::weights::{Misshapen, Report};

#[test]
fn names_neither_break_a_line_nor_steer_a_terminal() {
    let name = "a\n\u{1b}[31mb\u{202e}c'd\"e\\f";
    let shown = r#"a\n\u{1b}[31mb\u{202e}c'd"e\f"#;
    let refused = || std::io::Error::other("refused");
    for error in [
        Error::io(name, refused()),
        Error::format(name, 3, "x", "y"),
        Error::format("x", 3, name, "y"),
        Error::format("x", 3, "y", name),
        Error::invalid(name, "x", "y"),
        Error::invalid("x", name, "y"),
        Error::invalid("x", "y", name),
    ] {
        let message = error.to_string();
        assert!(message.contains(shown), "{message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
    let message = Error::NotFound {
        what: name.into(),
        looked: vec![name.into()],
        address: "nowhere".into(),
    };
    let message = message.to_string();
    assert_eq!(message.matches(shown).count(), 2, "{message}");
    // The three lines of this message are its own.
    assert_eq!(message.lines().count(), 3, "{message}");
}

#[test]
fn a_program_that_ends_with_an_error_prints_its_sentence() {
    let error = Error::io("names.txt", std::io::Error::other("refused"));
    assert_eq!(format!("{error:?}"), "names.txt: refused");
    let missing = Error::NotFound {
        what: "Cora".into(),
        looked: vec!["a".into()],
        address: "nowhere".into(),
    };
    assert_eq!(format!("{missing:?}"), missing.to_string());
}

#[test]
fn where_nothing_was_looked_at_the_message_says_so() {
    let message = Error::NotFound {
        what: "Cora".into(),
        looked: Vec::new(),
        address: "nowhere".into(),
    };
    let message = message.to_string();
    assert!(
        message.contains("Looked in no place: no folder was given"),
        "{message}"
    );
}

#[test]
fn messages_quote_the_beginning_of_long_texts() {
    let long = "é".repeat(1_000_000);
    for error in [
        Error::format("x", 3, &long, &long),
        Error::invalid("x", &long, &long),
    ] {
        let message = error.to_string();
        assert!(
            message.chars().count() < 1400,
            "{} characters",
            message.len()
        );
        assert_eq!(message.matches("é… (999400 more characters)").count(), 2);
    }
    let fits = "é".repeat(600);
    assert!(Error::invalid("x", "y", &fits).to_string().ends_with(&fits));
    let wide = Misshapen {
        key: "weight".into(),
        expected: vec![2],
        found: vec![1; 100_000],
    };
    let mut report = Report::default();
    report.misshapen.push(wide);
    assert!(report.to_string().chars().count() < 1000, "{report}");
}

#[cfg(unix)]
#[test]
fn bytes_that_are_no_text_are_shown_as_numbers() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    assert_eq!(printable(OsStr::from_bytes(b"a\xff\x1bb")), r"a\xff\u{1b}b");
    // A letter and its accent in two characters stay as they are.
    assert_eq!(printable("e\u{301}"), "e\u{301}");
}
