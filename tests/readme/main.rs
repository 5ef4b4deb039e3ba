//! The README agrees with the contents of the repository.

mod imports;

fn read(path: &str) -> String {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn the_first_listing_is_the_quickstart() {
    let readme = read("README.md");
    let (_, after) = readme.split_once("```rust\n").expect("a listing");
    let (listing, _) = after.split_once("```").expect("its end");
    let program = read("examples/quickstart.rs");
    assert_eq!(listing, program);
    assert!(program.lines().count() < 60);
}

#[test]
fn every_file_and_folder_it_names_is_there() {
    let readme = read("README.md");
    let mut links = 0;
    for rest in readme.split("](").skip(1) {
        let target = &rest[..rest.find(')').unwrap()];
        let target = target.split('#').next().unwrap();
        if target.is_empty() || target.contains("://") {
            continue;
        }
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(target);
        assert!(path.exists(), "{target}");
        links += 1;
    }
    assert!(links > 10);
}

#[test]
fn every_room_of_the_house_is_on_its_map() {
    let readme = read("README.md");
    for entry in std::fs::read_dir(format!("{}/../src", env!("CARGO_MANIFEST_DIR"))).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "lib.rs" {
            assert!(
                readme.contains(&format!("(src/{name}")),
                "{name} is not on the map"
            );
        }
    }
}

/// The table of errata in the evidence on conservation names tests of `tests/conservation` as `file::test`.
#[test]
fn every_test_that_the_errata_name_is_there() {
    let chapter = read("docs/evidence/conservation.md");
    let (_, errata) = chapter
        .split_once("## Errata of the paper")
        .expect("the table");
    let (errata, _) = errata.split_once("\n## ").expect("its end");
    let mut tests = 0;
    for name in errata.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once("::") else {
            continue;
        };
        let text = read(&format!("tests/conservation/{file}.rs"));
        assert!(text.contains(&format!("#[test]\nfn {test}()")), "{name}");
        tests += 1;
    }
    assert!(tests > 8, "{tests}");
}
