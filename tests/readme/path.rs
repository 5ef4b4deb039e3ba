//! The reading path, `docs/reading.md`: its files are there, with as many lines as it says.

use super::read;

/// The page with the present line counts.
fn counted(page: &str) -> String {
    let mut parts = page.split("\n## Evening ");
    let mut out = parts.next().expect("the head").to_owned();
    for evening in parts {
        let (mut sum, mut lines) = (0, Vec::new());
        for line in evening.lines() {
            let Some((file, rest)) = entry(line) else {
                lines.push(line.to_owned());
                continue;
            };
            let count = read(file).lines().count();
            sum += count;
            let (_, what) = rest.split_once('|').expect("three cells");
            lines.push(format!("| [{file}](../{file}) | {count} |{what}"));
        }
        let (title, _) = lines[0].rsplit_once(", ").expect("a number of lines");
        lines[0] = format!("{title}, {sum} lines");
        out += "\n## Evening ";
        out += &lines.join("\n");
        out.push('\n');
    }
    out
}

/// The file of a row, and the rest of the row.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (link, rest) = line.strip_prefix("| [")?.split_once(" | ")?;
    let (name, target) = link.strip_suffix(')')?.split_once("](../")?;
    assert_eq!(name, target, "the text of a link is its file");
    Some((name, rest))
}

#[test]
fn the_line_counts_of_the_reading_path_are_those_of_the_files() {
    let page = read("docs/reading.md");
    let present = counted(&page);
    assert!(present.lines().filter_map(entry).count() > 25);
    if std::env::var_os("EMMY_UPDATE").is_some() {
        std::fs::write(super::root().join("docs/reading.md"), &present).unwrap();
        return;
    }
    for (found, expected) in page.lines().zip(present.lines()) {
        assert!(
            found == expected,
            "docs/reading.md has other line counts than the files (EMMY_UPDATE=1 writes them):\n{found}\n{expected}"
        );
    }
    assert_eq!(page, present);
}

/// The first table names functions: they are in the files before them.
#[test]
fn the_functions_that_answer_are_there() {
    let page = read("docs/reading.md");
    let (table, _) = page.split_once("\n## ").unwrap();
    let mut functions = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let mut file = String::new();
        for part in row.split('`').flat_map(|part| part.split("](../")) {
            if super::SOURCES.iter().any(|folder| part.starts_with(folder)) {
                file = read(part.split(')').next().unwrap());
            } else if part.starts_with("fn ") {
                assert!(file.contains(part), "{part}");
                functions += 1;
            }
        }
    }
    assert_eq!(functions, 6);
}
