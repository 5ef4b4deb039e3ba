//! The laboratory of `emmy`: one program that repeats four papers, with a subcommand per paper or tool.
//!
//! ```text
//! cargo run --release -p papers -- balance --table 3 --data DIR
//! ```
//!
//! A paper is its cells, its numbers and its figures; what runs, divides and shows them is in
//! [`support::paper`].

pub mod audit;
pub mod balance;
pub mod certified;
pub mod char_lm;
pub mod contrastive;
pub mod cora;
pub mod deep_attention;
pub mod encoder;
pub mod groups;
pub mod invertible;
pub mod laws;
pub mod layers;
pub mod lipschitz;
pub mod oversmoothing;
pub mod self_attention;
pub mod support;
pub mod vision;

use clap::{Parser, Subcommand};
use emmy::Result;

/// Papers reproduced, and tools for networks and their laws
#[derive(Parser, Debug)]
#[command(name = "papers", version, propagate_version = true)]
// The last value of an option counts, so that what follows a command in a variable can change it.
#[command(args_override_self = true)]
pub struct Papers {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand, Debug)]
#[command(rename_all = "snake_case")]
enum Program {
    Audit(audit::Cli),
    Balance(balance::Cli),
    DeepAttention(deep_attention::Cli),
    SelfAttention(self_attention::Cli),
    Oversmoothing(oversmoothing::Cli),
    Vision(vision::Cli),
    Encoder(encoder::Cli),
    Cora(cora::Cli),
    CharLm(char_lm::Cli),
    Laws(laws::Cli),
    Lipschitz(lipschitz::Cli),
}

impl Papers {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// Those of the subcommand; `--help` of each says which exit code they have.
    pub fn run(&self) -> Result<()> {
        match &self.program {
            Program::Audit(cli) => audit::run(cli),
            Program::Balance(cli) => balance::run(cli),
            Program::DeepAttention(cli) => deep_attention::run(cli),
            Program::SelfAttention(cli) => self_attention::run(cli),
            Program::Oversmoothing(cli) => oversmoothing::run(cli),
            Program::Vision(cli) => vision::run(cli),
            Program::Encoder(cli) => encoder::run(cli),
            Program::Cora(cli) => cora::run(cli),
            Program::CharLm(cli) => char_lm::run(cli),
            Program::Laws(cli) => laws::run(cli),
            Program::Lipschitz(cli) => lipschitz::run(cli),
        }
    }
}

/// The chapters, so that their listings are compiled and run.
#[cfg(doctest)]
mod chapters {
    #[doc = include_str!("../docs/audit.md")]
    mod audit {}

    #[doc = include_str!("../docs/balance.md")]
    mod balance {}

    #[doc = include_str!("../docs/clusters.md")]
    mod clusters {}

    #[doc = include_str!("../docs/deep_attention.md")]
    mod deep_attention {}

    #[doc = include_str!("../docs/deep_transformers.md")]
    mod deep_transformers {}

    #[doc = include_str!("../docs/oversmoothing.md")]
    mod oversmoothing {}

    #[doc = include_str!("../docs/self_attention.md")]
    mod self_attention {}
}
