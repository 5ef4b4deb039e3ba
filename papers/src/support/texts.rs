//! The text that programs learn if none is named.

use emmy::data::text::Text;

/// "Alice's Adventures in Wonderland" by Lewis Carroll, 1865, which is in the public domain;
/// `examples/texts/README.md` says where it comes from. The first nine tenths train, the rest validates.
pub fn alice() -> Text {
    Text::split("alice", include_str!("../../../examples/texts/alice.txt")).expect("a text")
}
