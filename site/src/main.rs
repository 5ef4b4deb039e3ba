//! `cargo run -p site` writes the book into `target/site` and needs no network. Broken links are listed with
//! file and line, and nothing is written. `cargo run -p site -- OUT ROOT` writes into another folder, and the
//! book of another clone.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut folders = std::env::args_os().skip(1).map(PathBuf::from);
    let out = folders.next();
    let root = folders.next();
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let out = out.unwrap_or_else(|| root.join("target/site"));
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
