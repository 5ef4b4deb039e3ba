//! The chapters of the book: how they begin, how long they are, and where they are listed.

use super::read;

/// The chapters of the contents, in order.
fn chapters() -> Vec<String> {
    let contents = read("docs/README.md");
    let (_, part) = contents.split_once("## To learn").expect("the first part");
    let (part, _) = part.split_once("\n## ").expect("its end");
    let entries = part
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let names = entries.map(|line| {
        line.split("](")
            .nth(1)
            .unwrap()
            .split(".md)")
            .next()
            .unwrap()
    });
    names.map(str::to_owned).collect()
}

#[test]
fn each_chapter_says_what_it_needs_and_ends_in_time() {
    for chapter in chapters() {
        let text = read(&format!("docs/{chapter}.md"));
        let words = text.split_whitespace().count();
        assert!(words <= 2500, "{chapter}: {words} words");
        let mut paragraphs = text.split("\n\n");
        let head: Vec<&str> = paragraphs.by_ref().take(2).collect();
        assert!(head[0].starts_with("# "), "{chapter}: a title");
        assert!(
            head[1].starts_with("You need"),
            "{chapter}: what the reader needs"
        );
        assert!(text.contains(".svg"), "{chapter}: a picture");
        let solutions = text.matches("<summary>Solution</summary>").count();
        assert!(
            (2..=4).contains(&solutions),
            "{chapter}: {solutions} solutions"
        );
    }
}

/// The test of a layer that a chapter shows is the one that a crate of its own runs.
#[test]
fn the_test_of_a_layer_is_a_test_that_runs() {
    let (chapter, file) = (
        read("docs/testing.md"),
        read("tests/dependent/tests/layer.rs"),
    );
    let (_, test) = file.split_once("proptest! {").expect("the test");
    assert!(
        chapter.contains(test.trim_end()),
        "docs/testing.md has not:\n{test}"
    );
    let lines = test.lines().filter(|line| line.starts_with("    "));
    assert!(lines.count() <= 11, "ten lines, and the attribute");
}

/// README and the documentation of the crate name the chapters in the order of the contents.
#[test]
fn the_chapters_are_named_in_one_order() {
    let chapters = chapters();
    assert_eq!(chapters.len(), 11);
    let readme = read("README.md");
    let (_, readme) = readme.split_once("## The book").expect("the section");
    let places: Vec<usize> = (chapters.iter())
        .map(|c| {
            readme
                .find(&format!("](docs/{c}.md)"))
                .unwrap_or_else(|| panic!("README: {c}"))
        })
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    let book = read("src/book.rs");
    let places: Vec<usize> = (chapters.iter())
        .map(|c| {
            book.find(&format!("\" {c}\n"))
                .unwrap_or_else(|| panic!("src/book.rs: {c}"))
        })
        .collect();
    assert!(places.is_sorted(), "{places:?}");
}
