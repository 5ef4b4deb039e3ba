//! Colours for Rust: a tokeniser that knows comments, strings, numbers and words, and no grammar.

use crate::page::escape;

/// A line of source: its HTML, and the text of the documentation comment that it is, if it is one.
pub struct Line<'a> {
    pub html: String,
    pub text: &'a str,
    pub doc: Option<&'a str>,
}

const KEYWORDS: &str = " as async await break const continue crate dyn else enum extern false fn for if impl in \
    let loop match mod move mut pub ref return self Self static struct super trait true type union unsafe use \
    where while ";

/// The lines of a file, coloured. A token of several lines (a string, a block comment) is coloured in each.
pub fn lines(source: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line> = source.lines().map(plain).collect();
    for line in &mut lines {
        line.html.clear();
    }
    let mut n = 0;
    let mut rest = source;
    while !rest.is_empty() {
        let (class, length) = token(rest);
        let (text, after) = rest.split_at(length);
        for (i, piece) in text.split('\n').enumerate() {
            n += usize::from(i > 0);
            let piece = piece.trim_end_matches('\r');
            let Some(line) = lines.get_mut(n) else {
                continue;
            };
            if class == "c" && line.html.trim().is_empty() {
                line.doc = documentation(text);
            }
            match class {
                _ if piece.is_empty() => {}
                "" => line.html += &escape(piece),
                _ => line.html += &format!("<i class=\"{class}\">{}</i>", escape(piece)),
            }
        }
        rest = after;
    }
    lines
}

/// A line without colours.
pub fn plain(text: &str) -> Line<'_> {
    Line {
        html: escape(text),
        text,
        doc: None,
    }
}

/// What a comment says if it is documentation.
fn documentation(comment: &str) -> Option<&str> {
    let text = comment
        .strip_prefix("//!")
        .or(comment.strip_prefix("///"))?;
    (!text.starts_with('/')).then(|| text.strip_prefix(' ').unwrap_or(text))
}

/// The class of the first token, and its length. Blanks and signs have no class.
fn token(s: &str) -> (&'static str, usize) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = |s: &str| s.find(|c| !is_word(c)).unwrap_or(s.len());
    let mut chars = s.chars();
    let first = chars.next().expect("something left");
    if s.starts_with("//") {
        return ("c", s.find('\n').unwrap_or(s.len()));
    }
    if s.starts_with("/*") {
        return ("c", block_comment(s));
    }
    if let Some(length) = string(s) {
        return ("s", length);
    }
    if first == '\'' {
        // A character in quotes, or a lifetime.
        let second = chars.next().unwrap_or(' ');
        let end = 1 + second.len_utf8();
        return match second {
            '\\' => (
                "s",
                s[3.min(s.len())..].find('\'').map_or(s.len(), |i| i + 4),
            ),
            _ if s[end.min(s.len())..].starts_with('\'') => ("s", end + 1),
            _ => ("t", 1 + word(&s[1..])),
        };
    }
    if first.is_ascii_digit() {
        let mut length = word(s);
        // A fraction, but neither a range nor a method.
        let tail = &s[length..];
        if tail.starts_with('.') && tail[1..].starts_with(|c: char| c.is_ascii_digit()) {
            length += 1 + word(&tail[1..]);
        }
        if s[..length].ends_with(['e', 'E']) && s[length..].starts_with('-') {
            length += 1 + word(&s[length + 1..]);
        }
        return ("n", length);
    }
    if !is_word(first) {
        return ("", first.len_utf8());
    }
    let length = word(s);
    let (name, after) = s.split_at(length);
    let class = match name {
        _ if KEYWORDS.contains(&format!(" {name} ")) => "k",
        _ if after.starts_with('!') && !after.starts_with("!=") => "m",
        _ if name.len() > 1 && name.to_uppercase() == name => "n",
        _ if first.is_uppercase() => "t",
        _ if after.starts_with('(') || after.starts_with("::<") => "f",
        _ => "",
    };
    (class, length)
}

/// The length of a comment in which others may be nested.
fn block_comment(s: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < s.len() {
        let step = match s.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth + 1, 2),
            [b'*', b'/', ..] => (depth - 1, 2),
            _ => (depth, 1),
        };
        (depth, at) = (step.0, at + step.1);
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of the string at the start: "..", b"..", r"..", r#".."#.
fn string(s: &str) -> Option<usize> {
    let raw = s.trim_start_matches('b');
    let raw = raw.strip_prefix('r').unwrap_or(raw);
    let is_raw = raw.len() < s.trim_start_matches('b').len();
    let body = raw.trim_start_matches('#');
    let hashes = raw.len() - body.len();
    if s.len() - raw.len() > 2 || (hashes > 0 && !is_raw) || !body.starts_with('"') {
        return None;
    }
    let start = s.len() - body.len() + 1;
    if is_raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(
            s[start..]
                .find(&end)
                .map_or(s.len(), |i| start + i + end.len()),
        );
    }
    let mut escaped = false;
    for (i, c) in s[start..].char_indices() {
        match c {
            '"' if !escaped => return Some(start + i + 1),
            _ => escaped = c == '\\' && !escaped,
        }
    }
    Some(s.len())
}
