//! Everything that can be checked of a model, on one: a graph network of two layers.
//!
//! `cargo run --example check`; `--json` prints a report per line.
//!
//! Put your own model in place of `Net`: its forward pass is written once, in `subject`. Each report is a
//! table of statements with both sides. The program fails if a statement does.

use emmy::graph::generators::random_graph;
use emmy::lipschitz::Lp;
use emmy::nn::{GcnConv, Pass};
use emmy::symmetry::Search;
use emmy::testing::{
    Attack, Report, Subject, check_complete, check_drift, check_equivariant, check_grads,
    check_hessian, check_invariant, check_kind, check_laws, check_lipschitz, check_round_trip,
    check_same_bits, check_torch_names,
};
use emmy::{Error, Graph, Result, Var, init};

const HELP: &str =
    "check [--json]: prints every check of a graph network; --json: a report per line";

struct Net {
    hidden: GcnConv<f64>,
    out: GcnConv<f64>,
}
emmy::module!(Net for f64: hidden, out);

impl Net {
    fn new(seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        let mut net = Self {
            hidden: GcnConv::new(4, 5, true, rng),
            out: GcnConv::new(5, 3, true, rng),
        };
        // Biases away from zero, so that no term of a law is.
        for layer in [&mut net.hidden, &mut net.out] {
            if let Some(bias) = &mut layer.bias {
                *bias = init::normal(bias.shape(), 0.5, rng);
            }
        }
        net
    }

    fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, f64>,
        x: Var<'t, f64>,
        graph: &Graph,
    ) -> Var<'t, f64> {
        let adjacency = graph.gcn_norm();
        let h = self.hidden.forward(pass, x, &adjacency).relu();
        self.out.forward(pass, h, &adjacency)
    }
}

fn main() -> Result<()> {
    let mut json = false;
    for argument in std::env::args_os().skip(1) {
        match &*argument.to_string_lossy() {
            "--json" => json = true,
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(());
            }
            other => return Err(Error::invalid("arguments", "--json or --help", other)),
        }
    }
    let (net, mut other) = (Net::new(0), Net::new(1));
    let graph = random_graph(12, 20, 2).symmetrise();
    let x = init::normal(&[graph.nodes(), 4], 1.0, &mut init::rng(3));
    let subject = Subject::on_graph(&net, &x, &graph, 7, |pass, x, graph| {
        net.forward(pass, x, graph)
    });
    let tensors = vec![x.clone()];
    let operation = Subject::function(&tensors, 7, |x| x[0].relu());

    let mut reports: Vec<Report> = vec![
        check_laws(&subject),
        check_complete(&subject, &Search::default()),
        check_drift(&subject, 0.05, 50),
        check_invariant(&subject),
        check_grads(&subject),
        check_hessian(&subject),
        check_equivariant(&subject),
        check_kind(&operation),
        check_same_bits(&subject),
        check_round_trip(&net, &mut other),
        // From the `state_dict` of a module with two `GCNConv` of PyTorch Geometric.
        check_torch_names(
            &net,
            &[
                ("hidden.lin.weight", &[5, 4]),
                ("hidden.bias", &[5]),
                ("out.lin.weight", &[3, 5]),
                ("out.bias", &[3]),
            ],
        ),
    ];
    reports.extend(Lp::ALL.map(|p| check_lipschitz(&subject, p, &Attack::default())));
    for report in &reports {
        match json {
            true => println!("{}", report.json()),
            false => println!("{report}"),
        }
    }
    match reports.iter().find(|report| !report.holds()) {
        None => Ok(()),
        Some(report) => Err(Error::invalid(
            format!("the check `{}`", report.check),
            "statements that hold",
            report.to_string(),
        )),
    }
}
