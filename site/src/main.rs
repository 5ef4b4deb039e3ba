//! `cargo run -p site` writes the book into `target/site` and needs no network. Broken links are listed with
//! file and line, and nothing is written. `cargo run -p site -- OUT ROOT` writes into another folder, and the
//! book of another clone.

use lexopt::{Arg, Parser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "Write the book as a web site

Usage: cargo run -p site -- [OUT] [ROOT]

  OUT   Folder of the site [default: target/site in ROOT]
  ROOT  Folder of the repository [default: this one]";

fn main() -> ExitCode {
    let folders = match folders() {
        Ok(Some(folders)) => folders,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut folders = folders.into_iter();
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

/// At most two folders; none if help is asked for.
fn folders() -> Result<Option<Vec<PathBuf>>, lexopt::Error> {
    let mut folders = Vec::new();
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Value(folder) if folders.len() < 2 => folders.push(folder.into()),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(folders))
}
