//! Indices and exponents in plain text: α_ij and e^(s−M) as they are printed.

use crate::page::escape;

/// HTML of a text with `y_i`, `softmax_j`, `‖x‖_p`, `e^x`, `10^-3`, `e^(s−M)`, `1 ± 2`, which stays in one
/// line; `None` where there is none of these. A word takes an index of one letter or of digits, a letter
/// also two: `snake_case` is no formula.
pub fn html(text: &str) -> Option<String> {
    let mut out = String::new();
    let glued = text.replace(" ± ", "\u{a0}±\u{a0}");
    let mut rest = &*glued;
    let mut changed = glued != text;
    while let Some(at) = rest.find(['_', '^']) {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let lower = rest[at..].starts_with('_');
        out += &escape(before);
        match index(before, after, lower) {
            Some((shown, length)) => {
                let tag = if lower { "sub" } else { "sup" };
                out += &format!("<{tag}>{}</{tag}>", escape(shown));
                rest = &after[length..];
                changed = true;
            }
            None => {
                out += &rest[at..=at];
                rest = after;
            }
        }
    }
    changed.then(|| out + &escape(rest))
}

/// What is lowered or raised at the start of `after`, and the length of its source.
fn index<'a>(before: &str, after: &'a str, lower: bool) -> Option<(&'a str, usize)> {
    let is_word = |c: char| c.is_alphanumeric() || ('\u{300}'..'\u{370}').contains(&c);
    let base = before.len() - before.trim_end_matches(is_word).len();
    let base = &before[before.len() - base..];
    let base = base.chars().filter(|c| c.is_alphanumeric()).count();
    if base == 0 && !before.ends_with([')', ']', '|', '‖', '⟩']) {
        return None;
    }
    for (open, close) in [('{', '}'), ('(', ')')] {
        if let Some(inner) = after.strip_prefix(open)
            && !(lower && open == '(')
        {
            let end = inner.find(close)?;
            let fits = end > 0 && !inner[..end].contains(open);
            return fits.then_some((&inner[..end], end + 2));
        }
    }
    let sign = after.len() - after.trim_start_matches(['-', '−']).len();
    let sign = if lower { 0 } else { sign };
    let end = after[sign..]
        .find(|c| !is_word(c))
        .map_or(after.len(), |end| end + sign);
    let (index, next) = after.split_at(end);
    let letters = index[sign..].chars().count();
    let digits = index[sign..].chars().all(|c| c.is_ascii_digit());
    let short = digits || letters == 1 || (base <= 1 && letters <= 2);
    (letters > 0 && short && !next.starts_with('_')).then_some((index, end))
}

/// Whether a paragraph is a formula in a line of its own: short, and no word before its relation.
pub fn is_display(text: &str) -> bool {
    let Some(at) = text.find(['=', '≤', '≥', '←', '≈']) else {
        return false;
    };
    let mut words = text[..at]
        .split(|c: char| !c.is_ascii_alphabetic())
        .map(str::len);
    let first = words.find(|&length| length > 0).unwrap_or(0);
    text.chars().count() <= 160 && at > 0 && first <= 1 && words.all(|length| length < 4)
}
