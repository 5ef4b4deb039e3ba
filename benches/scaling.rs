//! Cost against the number of edges: forward and backward of a GCN propagation and of a GATv2 attention, 64 wide, one head, `f32`, on
//! random graphs with ten edges a node, and the most memory the process ever held. Each size runs in a process of its own.
//!
//! `cargo bench --bench scaling`, or with `-- --edges 10000,100000` for other sizes.

mod support;

use emmy::autodiff::vjp;
use emmy::graph::generators::random_graph;
use emmy::kernels::par;
use emmy::ops::attention::{EdgeAttention, EdgeOperands, LeakySum};
use emmy::tensor::memory;
use emmy::{Tape, init};
use std::process::Command;
use support::options::{self, list, value};

const HELP: &str = "Time propagation and attention on graphs of growing size

  --edges <EDGES>  Numbers of edges [default: 10000,100000,1000000,10000000]
  --threads <N>    Threads; 0 for one per processor [default: 0]";

struct Cli {
    edges: Vec<usize>,
    threads: usize,
    /// One size in this process
    single: bool,
}

impl Cli {
    fn parse() -> Self {
        let mut cli = Self {
            edges: vec![10_000, 100_000, 1_000_000, 10_000_000],
            threads: 0,
            single: false,
        };
        options::read(HELP, |name, parser| {
            match name {
                "edges" => cli.edges = list(parser)?,
                "threads" => cli.threads = value(parser)?,
                "single" => cli.single = true,
                _ => return Ok(false),
            }
            Ok(true)
        });
        cli
    }
}

const D: usize = 64;

fn main() {
    let cli = Cli::parse();
    if cli.single {
        return par::with_threads(cli.threads, || single(cli.edges[0]));
    }
    println!("| edges | nodes | GCN ms | ns per edge | GATv2 ms | ns per edge | peak memory MB |");
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    let program = std::env::current_exe().expect("this program has a path");
    for edges in cli.edges {
        let status = Command::new(&program)
            .args([
                "--single",
                "--edges",
                &edges.to_string(),
                "--threads",
                &cli.threads.to_string(),
            ])
            .status();
        let status = status.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        assert!(status.success(), "{edges} edges: {status}");
    }
}

fn single(edges: usize) {
    let nodes = edges / 10;
    let graph = random_graph(nodes, edges / 2, 1);
    let adjacency = graph.gcn_norm::<f32>();
    let rng = &mut init::rng(2);
    let z = init::normal(&[nodes, 1, D], 1.0, rng);
    let a = init::normal(&[1, D], 0.1, rng);
    let x = z
        .clone()
        .into_shape_with_order(&[nodes, D][..])
        .expect("one head");
    let attention = EdgeAttention {
        pattern: adjacency.pattern.clone(),
        dropout: None,
    };
    let times = if edges > 1_000_000 { 3 } else { 10 };
    let (gcn, _) = support::time(times, 0.0, || {
        let tape = Tape::new();
        let x = tape.var(x.clone());
        let y = tape.sparse(&adjacency).matmul(x);
        vjp(y, &[x], &y.value())
            .into_iter()
            .for_each(memory::recycle);
    });
    let (gatv2, _) = support::time(times, 0.0, || {
        let tape = Tape::new();
        let (z, a) = (tape.var(z.clone()), tape.var(a.clone()));
        let y = attention.attend(LeakySum { slope: 0.2 }, EdgeOperands::gatv2(z, z, a));
        vjp(y, &[z, a], &y.value())
            .into_iter()
            .for_each(memory::recycle);
    });
    let stored = adjacency.pattern.nnz() as f64;
    println!(
        "| {edges} | {nodes} | {:.2} | {:.1} | {:.2} | {:.1} | {} |",
        gcn * 1e3,
        gcn * 1e9 / stored,
        gatv2 * 1e3,
        gatv2 * 1e9 / stored,
        support::resident("VmHWM").map_or("unknown".to_owned(), |kb| (kb / 1024).to_string())
    );
}
