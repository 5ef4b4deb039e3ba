//! The model on one page.

use super::*;

#[test]
fn microgpt_learns_names_in_a_thousand_steps() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&command("microgpt", &folder, &[]).output().unwrap());
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].contains(" names, 4192 parameters; 1000 steps"),
        "{out}"
    );
    let loss = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let [first, last] = [1, 10].map(|k| loss(lines[k]));
    // The original has thousands of names and reaches 2.65; we have fewer names.
    assert!(last < 2.6 && first > last + 0.2, "{out}");
    let names = &lines[lines.len() - 10..];
    assert!(
        names
            .iter()
            .all(|name| name.chars().all(|c| c.is_ascii_lowercase())),
        "{out}"
    );

    std::fs::write(folder.path().join("names"), "anna\r\n\n otto \n").unwrap();
    let (out, _) = succeeded(&command("microgpt", &folder, &["names"]).output().unwrap());
    let found = out.lines().rev().take(10);
    assert!(
        found.filter(|name| ["anna", "otto"].contains(name)).count() >= 8,
        "{out}"
    );
    std::fs::write(folder.path().join("names"), " \n").unwrap();
    refused(
        &command("microgpt", &folder, &["names"]).output().unwrap(),
        "a name per line",
    );
    for (path, reason) in [("none", "none: "), ("/dev/zero", "not a regular file")] {
        let output = command("microgpt", &folder, &[path]).output().unwrap();
        refused(&output, reason);
        assert!(!text(&output.stderr).contains('{'), "not a sentence");
    }
    let (help, _) = succeeded(&command("microgpt", &folder, &["--help"]).output().unwrap());
    assert!(help.starts_with("microgpt [FILE]: "), "{help}");
}
