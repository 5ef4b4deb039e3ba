//! A repository of five files: what becomes of Markdown and Rust, and which faults are found where.

use super::*;
use std::process::Command;

const CHAPTER: &str = "\
# The first chapter

You need: nothing (5 minutes).

## Softmax's y_i, in `Rust` & x̄!

It's e^(s−M), ‖x‖_p, α_ij = 1 ± 2, softmax_j, not snake_case: `src/` and `src/gone`, [lib](../src/lib.rs#L2), [again](#softmaxs-y_i-in-rust--x̄).

```rust
# use hidden::Item;
let answer: u32 = 42; // \"so\"
```

δ_j = 0 for every j.

Take y = 1.

<details><summary>Solution</summary>

A *solution*.

</details>

![A line](figures/line.svg)

| a | b |
|---|---:|
| 1 | 2 |
";

const SOURCE: &str = "\
//! A crate, see [`Item`] and [the book](https://example.org).

/// An item with [n, d] numbers, from [`crate::Item`](crate::Item); not [`Other`].
pub struct Item<'a>(&'a str);

const TEXT: &str = r#\"/// not
a comment\"#;
";

fn repository() -> TempDir {
    let folder = TempDir::new().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("README.md", "# emmy\n\nSee [docs](docs) and [src](src).\n");
    write(
        "docs/README.md",
        "# The book\n\n## To learn\n\n1. [One](one.md): a chapter.\n2. [Path](reading.md): files.\n",
    );
    write("docs/one.md", CHAPTER);
    write(
        "docs/reading.md",
        "# Path\n\n## Evening 1\n\n| f | n | what |\n|---|---|---|\n| [src/lib.rs](../src/lib.rs) | 7 | `Item` |\n",
    );
    write(
        "docs/figures/line.svg",
        "<svg width=\"10\" height=\"20\" xmlns=\"http://www.w3.org/2000/svg\"/>",
    );
    write("src/lib.rs", SOURCE);
    folder
}

fn build(repository: &TempDir) -> Result<BTreeMap<String, String>, String> {
    let out = TempDir::new().unwrap();
    site::build(repository.path(), out.path()).map_err(|problems| problems.to_string())?;
    Ok(files(out.path()))
}

#[test]
fn a_chapter() {
    let files = build(&repository()).unwrap();
    let names: Vec<&str> = files.keys().map(|name| &**name).collect();
    let expected = [
        "book.css",
        "book.js",
        "docs/figures/line.svg",
        "docs/index.html",
        "docs/one.html",
        "docs/reading.html",
        "index.html",
        "index.js",
        "src/files.html",
        "src/lib.rs.html",
    ];
    assert_eq!(names, expected);
    let page = &files["docs/one.html"];
    for part in [
        "<title>The first chapter · emmy</title>",
        "<meta name=\"description\" content=\"You need: nothing (5 minutes).\">",
        "<p class=\"eyebrow\">To learn · 1</p>",
        "<p class=\"need\">",
        "<h2 id=\"softmaxs-y_i-in-rust--x̄\">",
        "It’s e<sup>s−M</sup>, ‖x‖<sub>p</sub>, α<sub>ij</sub> = 1\u{a0}±\u{a0}2, softmax<sub>j</sub>, not snake_case: <a class=\"file\" href=\"../src/files.html\"><code>src/</code></a> and <code>src/gone</code>, <a href=\"../src/lib.rs.html#L2\">lib</a>",
        "<pre class=\"rust\"><code><i class=\"k\">let</i> answer: u32 = <i class=\"n\">42</i>; <i class=\"c\">// &quot;so&quot;</i></code></pre>",
        "<p class=\"formula\">δ<sub>j</sub> = 0 for every j.</p>",
        "<p>Take y = 1.</p>",
        "<details><summary>Solution</summary>",
        "<p>A <em>solution</em>.</p>",
        "<figure><img src=\"figures/line.svg\" alt=\"A line\" width=\"10\" height=\"20\"><figcaption>A line</figcaption></figure>",
        "<div class=\"scroll\"><table>",
        "rel=\"prev\" href=\"index.html\"",
        "rel=\"next\" href=\"reading.html\"",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[test]
fn source_beside_prose() {
    let files = build(&repository()).unwrap();
    let page = &files["src/lib.rs.html"];
    for part in [
        "<p class=\"eyebrow\"><a href=\"../docs/reading.html\">Evening 1</a> · 1 of 1 · 7 lines</p>",
        "<h1 class=\"path\"><a href=\"files.html\">src</a>/<wbr>lib.rs</h1>",
        "<p class=\"about\">Item</p>",
        "A crate, see <a href=\"lib.rs.html#L4\"><code>Item</code></a> and <a href=\"https://example.org\">the book</a>.",
        "An item with [n, d] numbers, from <a href=\"lib.rs.html#L4\"><code>crate::Item</code></a>; not <code>Other</code>.",
        "<span class=\"l\" id=\"L4\"><i class=\"k\">pub</i> <i class=\"k\">struct</i> <i class=\"t\">Item</i>",
        // A string that looks like a comment stays code.
        "<span class=\"l\" id=\"L6\"><i class=\"k\">const</i> <i class=\"n\">TEXT</i>",
        "<span class=\"l\" id=\"L7\"><i class=\"s\">a comment&quot;#</i>;",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

/// The repository with one text replaced.
fn with(file: &str, old: &str, new: &str) -> TempDir {
    let repository = repository();
    let path = repository.path().join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(old), "{file}: {old}");
    std::fs::write(&path, text.replacen(old, new, 1)).unwrap();
    repository
}

#[test]
fn faults_are_found_with_file_and_line() {
    for (file, old, new, fault) in [
        (
            "docs/one.md",
            "../src/lib.rs",
            "../src/gone.rs",
            "docs/one.md:7: there is no src/gone.rs",
        ),
        (
            "docs/one.md",
            "#L2",
            "#L8",
            "docs/one.md:7: src/lib.rs has no heading #L8",
        ),
        (
            "docs/one.md",
            "(#soft",
            "(#hard",
            "docs/one.md:7: docs/one.md has no heading #hardmaxs-y_i-in-rust--x̄",
        ),
        (
            "docs/one.md",
            "line.svg",
            "curve.svg",
            "docs/one.md:24: there is no docs/figures/curve.svg",
        ),
        (
            "docs/one.md",
            "figures/line.svg",
            "figures",
            "docs/one.md:24: figures: is no image",
        ),
        (
            "docs/one.md",
            "figures/line.svg",
            "mailto:a@b.c",
            "docs/one.md:24: mailto:a@b.c: images come from the repository",
        ),
        (
            "docs/one.md",
            "../src",
            "../../src",
            "docs/one.md:7: ../../src/lib.rs leaves the repository",
        ),
        (
            "docs/one.md",
            "<summary>",
            "<summary><a href=\"x.md\">",
            "docs/one.md:18: there is no docs/x.md",
        ),
        (
            "docs/one.md",
            "# The",
            "The",
            "docs/one.md:1: has no heading `# Title`",
        ),
        (
            "docs/README.md",
            "one.md",
            "two.md",
            "docs/README.md:5: there is no docs/two.md",
        ),
        (
            "docs/README.md",
            "[One](one.md)",
            "One",
            "docs/one.md:1: is not in the contents, docs/README.md",
        ),
        (
            "docs/reading.md",
            "lib.rs)",
            "gone.rs)",
            "docs/reading.md:7: there is no src/gone.rs",
        ),
        (
            "src/lib.rs",
            "(https://example.org)",
            "(../book.md)",
            "src/lib.rs:1: there is no book.md",
        ),
    ] {
        let found = build(&with(file, old, new)).unwrap_err();
        assert_eq!(found, format!("{fault}\nthe site was not built: 1 fault"));
    }
    let repository = repository();
    std::fs::remove_file(repository.path().join("docs/reading.md")).unwrap();
    let found = build(&repository).unwrap_err();
    assert!(
        found.contains("docs/README.md:6: there is no docs/reading.md"),
        "{found}"
    );
}

#[test]
fn the_program_fails_with_its_faults() {
    let run = |repository: &TempDir| {
        let out = repository.path().join("target/site");
        let run = Command::new(env!("CARGO_BIN_EXE_site"))
            .arg(&out)
            .arg(repository.path())
            .output();
        let run = run.unwrap();
        (
            run.status.code(),
            String::from_utf8(run.stderr).unwrap(),
            out.join("index.html").exists(),
        )
    };
    assert_eq!(run(&repository()), (Some(0), String::new(), true));
    let (code, faults, written) = run(&with("README.md", "(src)", "(gone)"));
    assert_eq!(
        faults,
        "README.md:3: there is no gone\nthe site was not built: 1 fault\n"
    );
    assert_eq!((code, written), (Some(1), false));
    for (option, code) in [("--help", 0), ("--hlep", 2)] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_site"));
        let run = program.arg(option).output().unwrap();
        assert_eq!(run.status.code(), Some(code), "{option}");
    }
}

#[test]
fn a_folder_of_somebody_else_is_left_alone() {
    let out = TempDir::new().unwrap();
    std::fs::write(out.path().join("thesis.txt"), "years").unwrap();
    let fault = site::build(repository().path(), out.path())
        .err()
        .unwrap()
        .to_string();
    assert!(fault.contains("is not empty"), "{fault}");
    assert!(out.path().join("thesis.txt").exists());
    // The assets of the site are no site.
    std::fs::rename(out.path().join("thesis.txt"), out.path().join("book.css")).unwrap();
    assert!(site::build(repository().path(), out.path()).is_err());
    assert!(out.path().join("book.css").exists());
}
