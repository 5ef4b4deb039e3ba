//! Time by the number of edges: forward and backward of a GCN propagation and of a GATv2 attention, 64
//! wide, one head, `f32`, on random graphs with ten edges per node, and the most memory that the process
//! ever held. Each size runs in a process of its own.
//!
//! The bytes that an operation moves at least are divided by its time, and by the bandwidth of the main
//! memory, measured in the same process. They are those of the floor of `peers`: per pass over the entries
//! a column, a value and a row of features each, and each row of the output once; two passes of GCN, three
//! of GATv2. For GCN they are also divided by the rate at which the rows of features alone can be read in
//! the order of the entries.
//!
//! `cargo bench --bench scaling`, or with `-- --edges 10000,100000` for other sizes, and
//! `-- --graph grid --order shuffled` for another graph or order of its nodes.

mod support;

use emmy::autodiff::vjp;
use emmy::graph::Graph;
use emmy::graph::generators::{grid, random_graph};
use emmy::kernels::par;
use emmy::ops::attention::{EdgeAttention, EdgeOperands, LeakySum};
use emmy::tensor::memory;
use emmy::{Tape, init};
use lexopt::{Error, Parser};
use rand::seq::SliceRandom;
use rayon::prelude::*;
use std::hint::black_box;
use std::process::Command;
use support::options::{self, list, value};

const HELP: &str = "Time propagation and attention on graphs of growing size

  --edges <EDGES>  Numbers of edges [default: 10000,100000,1000000,10000000]
  --graph <GRAPH>  random, with ten edges per node, or grid, a square with four [default: random]
  --order <ORDER>  Numbers of the nodes: given, shuffled, degree, or cuthill-mckee of shuffled ones [default: given]
  --threads <N>    Threads; 0 for one per processor [default: 0]
  --json           A JSON object per size in place of the table";

struct Cli {
    edges: Vec<usize>,
    graph: String,
    order: String,
    threads: usize,
    json: bool,
    /// One size in this process
    single: bool,
}

impl Cli {
    fn parse() -> Self {
        let mut cli = Self {
            edges: vec![10_000, 100_000, 1_000_000, 10_000_000],
            graph: "random".to_owned(),
            order: "given".to_owned(),
            threads: 0,
            json: false,
            single: false,
        };
        options::read(HELP, |name, parser| {
            match name {
                "edges" => cli.edges = list(parser)?,
                "graph" => cli.graph = one_of(&GRAPHS, parser)?,
                "order" => cli.order = one_of(&ORDERS, parser)?,
                "threads" => cli.threads = value(parser)?,
                "json" => cli.json = true,
                "single" => cli.single = true,
                _ => return Ok(false),
            }
            Ok(true)
        });
        cli
    }
}

const D: usize = 64;

const GRAPHS: [&str; 2] = ["random", "grid"];
const ORDERS: [&str; 4] = ["given", "shuffled", "degree", "cuthill-mckee"];

/// The value of an option that has few.
fn one_of(names: &[&str], parser: &mut Parser) -> Result<String, Error> {
    let found: String = value(parser)?;
    match names.contains(&found.as_str()) {
        true => Ok(found),
        false => Err(format!("{found}: expected one of {}", names.join(", ")).into()),
    }
}

fn main() {
    let cli = Cli::parse();
    if cli.single {
        return par::with_threads(cli.threads, || single(&cli));
    }
    if !cli.json {
        println!(
            "| edges | nodes | GCN ms | GB/s | of the memory's | of the rows' | GATv2 ms | GB/s | of the memory's | peak memory MB |"
        );
        println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    }
    let program = std::env::current_exe().expect("this program has a path");
    for edges in cli.edges {
        let status = Command::new(&program)
            .args([
                "--single",
                "--edges",
                &edges.to_string(),
                "--threads",
                &cli.threads.to_string(),
                "--graph",
                &cli.graph,
                "--order",
                &cli.order,
            ])
            .args(cli.json.then_some("--json"))
            .status();
        let status = status.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        assert!(status.success(), "{edges} edges: {status}");
    }
}

/// The graph of the options, with about so many edges.
fn graph(cli: &Cli, edges: usize) -> Graph {
    let graph = match cli.graph.as_str() {
        "random" => random_graph(edges / 10, edges / 2, 1),
        "grid" => {
            let side = (edges as f64 / 4.0).sqrt() as usize;
            grid(side, side)
        }
        other => unreachable!("{other} is none of {GRAPHS:?}"),
    };
    let shuffled = || {
        let mut to: Vec<_> = (0..graph.nodes()).collect();
        to.shuffle(&mut init::rng(3));
        graph.permute(&to)
    };
    match cli.order.as_str() {
        "given" => graph,
        "shuffled" => shuffled(),
        "degree" => shuffled().permute(&shuffled().by_degree()),
        "cuthill-mckee" => shuffled().permute(&shuffled().cuthill_mckee()),
        other => unreachable!("{other} is none of {ORDERS:?}"),
    }
}

/// Reads the rows of x that `numbers` lists, in that order, on all threads, and adds them up.
fn read(numbers: &[u32], x: &[f32]) {
    let (rows, _) = x.as_chunks::<D>();
    numbers.par_chunks(1 << 14).for_each(|numbers| {
        let mut sum = [0.0; D];
        emmy::kernels::dispatch(
            #[inline(always)]
            || {
                for &j in numbers {
                    let row = &rows[j as usize];
                    for (sum, x) in sum.iter_mut().zip(row) {
                        *sum += x;
                    }
                }
            },
        );
        black_box(sum);
    });
}

fn single(cli: &Cli) {
    let graph = graph(cli, cli.edges[0]);
    let (nodes, edges) = (graph.nodes(), graph.edges());
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
    let row = 4.0 * D as f64;
    let pass = stored * (8.0 + row) + nodes as f64 * row;
    let megabytes = support::resident("VmHWM").map(|bytes| bytes / 1_000_000);
    let memory = support::memory();
    let features = z.as_slice().expect("no gaps");
    let (seconds, _) = support::time(times, 0.0, || read(adjacency.pattern.indices(), features));
    let rows_rate = stored * row / seconds;
    let (gcn_rate, gatv2_rate) = (2.0 * pass / gcn, 3.0 * pass / gatv2);
    if cli.json {
        println!(
            "{}",
            serde_json::json!({
                "who": "emmy", "edges": edges, "nodes": nodes, "threads": rayon::current_num_threads(),
                "gcn_ms": gcn * 1e3, "gatv2_ms": gatv2 * 1e3, "mb": megabytes,
                "gcn_bytes_per_s": gcn_rate, "gatv2_bytes_per_s": gatv2_rate, "memory_bytes_per_s": memory,
                "rows_bytes_per_s": rows_rate,
            })
        );
        return;
    }
    println!(
        "| {edges} | {nodes} | {:.2} | {:.1} | {:.0} % | {:.0} % | {:.2} | {:.1} | {:.0} % | {} |",
        gcn * 1e3,
        gcn_rate / 1e9,
        1e2 * gcn_rate / memory,
        1e2 * gcn_rate / rows_rate,
        gatv2 * 1e3,
        gatv2_rate / 1e9,
        1e2 * gatv2_rate / memory,
        megabytes.map_or("unknown".to_owned(), |mb| mb.to_string())
    );
}
