//! The documents of this project as a text.

use super::Text;

/// The chapters, in the order of their names.
const CHAPTERS: [&str; 7] = [
    include_str!("../../../docs/attention.md"),
    include_str!("../../../docs/collapse.md"),
    include_str!("../../../docs/conservation.md"),
    include_str!("../../../docs/engine.md"),
    include_str!("../../../docs/errata.md"),
    include_str!("../../../docs/lipschitz.md"),
    include_str!("../../../docs/weights.md"),
];

/// The project's own documents, `docs/*.md` one after the other, which are part of the library: a text that
/// needs no file. The first nine tenths train, the rest validates.
pub fn book() -> Text {
    Text::split("book", &CHAPTERS.concat()).expect("the chapters are a text")
}
