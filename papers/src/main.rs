//! `papers SUBCOMMAND`: the papers and tools of this crate on the command line.

use papers::Papers;
use papers::support::{args, exit};
use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse::<Papers>() {
        Ok(papers) => exit(papers.run()),
        Err(code) => code,
    }
}
