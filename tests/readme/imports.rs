//! What the files of the library import from each other: rooms use their own floor and those below, and
//! neither rooms nor files import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The path of a module from the root of the crate.
type Module = Vec<String>;

/// Who imports whom.
type Imports = BTreeSet<(Module, Module)>;

/// Pairs of files that import each other, each with the reason. Without the first's import of the second
/// there is no circle.
const ALLOWED: [(&str, &str, &str); 2] = [
    (
        "autodiff::tape",
        "autodiff::var",
        "a variable is a place on a tape, and a tape hands out variables",
    ),
    (
        "train::trainer",
        "train::observer",
        "a trainer calls its observers, and shows itself to them",
    ),
];

/// The text of every module without comments and tests.
fn sources() -> BTreeMap<Module, String> {
    fn collect(folder: &Path, module: &Module, all: &mut BTreeMap<Module, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let own = match &*name {
                "mod" | "lib" => module.clone(),
                "tests" => continue,
                _ => [&module[..], &[name]].concat(),
            };
            match path.is_dir() {
                true => collect(&path, &own, all),
                false => {
                    let text = std::fs::read_to_string(path).unwrap();
                    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
                    let lines = code.lines().map(|line| line.split("//").next().unwrap());
                    // Each crate of the library has a root.
                    let text = all.entry(own).or_default();
                    *text += &lines.collect::<Vec<_>>().join("\n");
                }
            }
        }
    }
    let mut all = BTreeMap::new();
    for root in super::SOURCES {
        collect(&super::root().join(root), &Vec::new(), &mut all);
    }
    all
}

/// The paths of `a::{b, c::{d, e as f}}`: a::b, a::c::d, a::c::e.
fn paths(tree: &str) -> Vec<Module> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in tree.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().unwrap().push(c),
        }
    }
    let mut all = Vec::new();
    for part in parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty())
    {
        let segments = |text: &str| -> Module {
            let names = text.split("::").map(|name| name.trim().to_owned());
            names.filter(|name| !name.is_empty()).collect()
        };
        match part.split_once('{') {
            Some((before, inner)) => {
                let inner = inner.strip_suffix('}').expect("a closed brace");
                all.extend(
                    paths(inner)
                        .iter()
                        .map(|path| [&segments(before)[..], path].concat()),
                );
            }
            None => all.push(segments(part.split(" as ").next().unwrap())),
        }
    }
    all
}

/// The paths that a module imports by `use`, each with whether it is public, and the paths from `crate` or
/// `super` on in the rest of its code.
fn named(code: &str) -> Named {
    let (mut imports, mut rest) = (Vec::new(), String::new());
    let mut statement: Option<String> = None;
    for line in code.lines() {
        let bare = line.trim_start();
        let begins = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
        if statement.is_none()
            && (begins.iter().any(|b| bare.starts_with(b))
                || bare.starts_with("pub(in crate") && bare.contains(" use "))
        {
            statement = Some(String::new());
        }
        let Some(text) = &mut statement else {
            rest += line;
            rest.push('\n');
            continue;
        };
        text.push_str(bare);
        text.push(' ');
        if let Some(end) = text.find(';') {
            let (visible, tree) = text[..end].split_once("use ").unwrap();
            let public = !visible.is_empty();
            imports.extend(paths(tree).into_iter().map(|path| (path, public)));
            statement = None;
        }
    }
    let mut inline = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in rest.match_indices(root) {
            let before = rest[..at].chars().next_back().unwrap_or(' ');
            // `$crate` in a macro stands for the place of its use.
            if before.is_alphanumeric() || "_:$".contains(before) {
                continue;
            }
            let inside = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let path = rest[at..].split(|c| !inside(c)).next().unwrap();
            inline.extend(paths(path.trim_end_matches(':')));
        }
    }
    (imports, inline)
}

/// What a module imports, and whether it does so publicly; and the paths in its code.
type Named = (Vec<(Module, bool)>, Vec<Module>);

/// The modules and what they name.
struct House {
    names: BTreeMap<Module, Named>,
}

impl House {
    fn new() -> Self {
        let names = sources().into_iter();
        Self {
            names: names.map(|(module, code)| (module, named(&code))).collect(),
        }
    }

    /// The module in which a path, as `from` names it, is defined; none for another crate.
    fn defines(
        &self,
        from: &Module,
        path: &[String],
        seen: &mut BTreeSet<Module>,
    ) -> Option<Module> {
        let mut at = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "super" | "self" => from.clone(),
            first
                if self
                    .names
                    .contains_key(&[&from[..], &[first.to_owned()]].concat()) =>
            {
                from.clone()
            }
            _ => return None,
        };
        for (k, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" | "self" => continue,
                "super" => {
                    at.pop();
                    continue;
                }
                _ => {}
            }
            let inner = [&at[..], std::slice::from_ref(name)].concat();
            if self.names.contains_key(&inner) {
                at = inner;
                continue;
            }
            // A name that the module imports itself.
            let (imports, _) = &self.names[&at];
            let import = imports
                .iter()
                .find(|(import, _)| import.last() == Some(name));
            return match import.filter(|_| seen.insert(inner)) {
                Some((import, _)) => {
                    let whole = [&import[..], &path[k + 1..]].concat();
                    self.defines(&at, &whole, seen).or(Some(at))
                }
                None => Some(at),
            };
        }
        Some(at)
    }

    /// Which module imports which. What a module passes on of its own parts does not count.
    fn imports(&self) -> Imports {
        let mut all = Imports::new();
        for (module, (imports, inline)) in &self.names {
            let inline = inline.iter().map(|path| (path, false));
            for (path, public) in imports
                .iter()
                .map(|(path, public)| (path, *public))
                .chain(inline)
            {
                let Some(other) = self.defines(module, path, &mut BTreeSet::new()) else {
                    continue;
                };
                if other != *module && !(public && other.starts_with(module)) {
                    all.insert((module.clone(), other));
                }
            }
        }
        all
    }
}

/// The imports that are part of a circle, or lie between two circles.
fn circles(mut imports: Imports) -> Imports {
    loop {
        let from: BTreeSet<Module> = imports.iter().map(|(from, _)| from.clone()).collect();
        let to: BTreeSet<Module> = imports.iter().map(|(_, to)| to.clone()).collect();
        let before = imports.len();
        imports.retain(|(a, b)| to.contains(a) && from.contains(b));
        if imports.len() == before {
            return imports;
        }
    }
}

/// The imports between the first `depth` names of the modules.
fn between(imports: &Imports, depth: usize) -> Imports {
    let cut = |module: &Module| module[..depth.min(module.len())].to_vec();
    let deep = imports
        .iter()
        .filter(|(a, b)| a.len() >= depth && b.len() >= depth);
    deep.map(|(a, b)| (cut(a), cut(b)))
        .filter(|(a, b)| a != b)
        .collect()
}

fn shown(imports: &Imports) -> String {
    let lines = imports
        .iter()
        .map(|(a, b)| format!("{} uses {}", a.join("::"), b.join("::")));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn no_room_uses_a_floor_above_it() {
    let text = super::read("CONTRIBUTING.md");
    let (_, table) = text.split_once("| floor | room |").expect("the map");
    let mut floors = BTreeMap::new();
    for row in table.lines() {
        let mut cells = row.split('|').map(str::trim);
        let Some(Ok(floor)) = cells.nth(1).map(str::parse::<u32>) else {
            continue;
        };
        let rooms = cells.next().unwrap().split('[').skip(1);
        floors.extend(rooms.map(|room| (room.split(']').next().unwrap().to_owned(), floor)));
    }
    let imports = House::new().imports();
    assert!(imports.len() > 500, "{}", imports.len());
    for (a, b) in between(&imports, 1) {
        let [Some(floor), Some(other)] = [&a, &b].map(|room| floors.get(&room[0])) else {
            continue;
        };
        assert!(
            other <= floor,
            "{} (floor {floor}) uses {} (floor {other})",
            a[0],
            b[0]
        );
    }
}

#[test]
fn nothing_is_imported_in_a_circle() {
    let mut imports = House::new().imports();
    for (a, b, reason) in ALLOWED {
        let pair = [a, b].map(|path| paths(path).remove(0));
        let [a, b] = pair.clone();
        assert!(
            imports.contains(&(b, a)),
            "no exception is needed any more for {pair:?}: {reason}"
        );
        let [a, b] = pair;
        assert!(imports.remove(&(a, b)), "{reason}");
    }
    // Rooms, folders of a room, and files.
    for depth in [1, 2, usize::MAX] {
        let imports = match depth {
            usize::MAX => imports.clone(),
            _ => between(&imports, depth),
        };
        let found = circles(imports);
        assert!(found.is_empty(), "a circle of imports:\n{}", shown(&found));
    }
}

/// The reader of imports finds what it should.
#[test]
fn imports_are_read() {
    let strings = |paths: Vec<Module>| paths.iter().map(|p| p.join("::")).collect::<Vec<_>>();
    let found = strings(paths("a::{self, b, c::{d, e as f}}, g"));
    assert_eq!(found, ["a::self", "a::b", "a::c::d", "a::c::e", "g"]);
    let code = "use super::{\n    A,\n    b::C,\n};\npub use d::E;\nfn f() -> crate::g::H { $crate::no(super::i::J) }";
    let (imports, inline) = named(code);
    let (names, public): (Vec<_>, Vec<_>) = imports.into_iter().unzip();
    assert_eq!(strings(names), ["super::A", "super::b::C", "d::E"]);
    assert_eq!(public, [false, false, true]);
    assert_eq!(strings(inline), ["crate::g::H", "super::i::J"]);
    let module = |name: &str| vec![name.to_owned()];
    let pair = |a, b| (module(a), module(b));
    let circle = Imports::from([pair("b", "c"), pair("c", "b")]);
    let more = [pair("a", "b"), pair("c", "d")];
    assert_eq!(
        circles(circle.iter().cloned().chain(more).collect()),
        circle
    );
}
