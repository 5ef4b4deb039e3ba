//! `cargo run -p site [FOLDER]` writes the book into `target/site`, or into another folder. Needs no network.
//! Broken links are listed with file and line, and nothing is written.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = std::env::args_os().nth(1);
    let out = out.map_or_else(|| root.join("target/site"), PathBuf::from);
    match site::build(&root, &out) {
        Ok(summary) => {
            println!("{summary}");
            let start = out.join("index.html");
            let start = start.canonicalize().unwrap_or(start);
            println!("open {}", start.display());
            ExitCode::SUCCESS
        }
        Err(problems) => {
            eprintln!("{problems}");
            ExitCode::FAILURE
        }
    }
}
