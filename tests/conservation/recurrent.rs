//! The laws of LSTM and GRU: those that the layers state hold, there are no others, and they fail where a
//! gate treats the two biases differently.

use crate::cases::cases;
use crate::support::{draw_all, measure, typically};
use emmy::nn::{
    Gru, GruCell, Layer, LayerNorm, Linear, Lstm, LstmCell, Module, Params, Pass, Trace, discover,
};
use emmy::symmetry::{Discovery, Law, Search, Symmetry, Term};
use emmy::{Tape, Tensor, Var, init};

/// A model with the data on which it is run.
trait Model: Module<f64> + Sync {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64>;
}

fn data<'t>(pass: &Pass<'t, '_, f64>, shape: &[usize], seed: u64) -> Var<'t, f64> {
    pass.tape()
        .constant(init::normal(shape, 1.0, &mut init::rng(seed)))
}

/// A map before an LSTM, and one after it.
struct OfLstm {
    first: Linear<f64>,
    lstm: Lstm<f64>,
    last: Linear<f64>,
}
emmy::module!(OfLstm for f64: first, lstm, last);

impl Model for OfLstm {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let x = self.first.forward(pass, data(pass, &[3, 4, 2], seed));
        let (y, _) = self.lstm.forward(pass, x, None);
        self.last.forward(pass, y)
    }
}

fn of_lstm(layers: usize) -> OfLstm {
    let rng = &mut init::rng(0);
    OfLstm {
        first: Linear::new(2, 2, true, rng),
        lstm: Lstm::new(2, 2, layers, rng),
        last: Linear::new(2, 2, true, rng),
    }
}

/// The same with a GRU.
struct OfGru {
    first: Linear<f64>,
    gru: Gru<f64>,
    last: Linear<f64>,
}
emmy::module!(OfGru for f64: first, gru, last);

impl Model for OfGru {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let x = self.first.forward(pass, data(pass, &[3, 4, 2], seed));
        let (y, _) = self.gru.forward(pass, x, None);
        self.last.forward(pass, y)
    }
}

fn of_gru(layers: usize) -> OfGru {
    let rng = &mut init::rng(0);
    OfGru {
        first: Linear::new(2, 2, true, rng),
        gru: Gru::new(2, 2, layers, rng),
        last: Linear::new(2, 2, true, rng),
    }
}

/// A gated graph network: messages along a constant matrix, a GRU cell that all rounds share (Li et al.,
/// "Gated Graph Sequence Neural Networks", ICLR 2016).
struct Gated {
    messages: Vec<Linear<f64>>,
    cell: GruCell<f64>,
    last: Linear<f64>,
}
emmy::module!(Gated for f64: messages, cell, last);

impl Model for Gated {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let mut h = data(pass, &[5, 2], seed);
        let matrix = data(pass, &[5, 5], seed + 1);
        for message in &self.messages {
            let m = matrix.matmul(message.forward(pass, h));
            h = self.cell.forward(pass, m, h);
        }
        self.last.forward(pass, h)
    }
}

fn gated() -> Gated {
    let rng = &mut init::rng(0);
    Gated {
        messages: (0..2).map(|_| Linear::new(2, 2, false, rng)).collect(),
        cell: GruCell::new(2, 2, rng),
        last: Linear::new(2, 2, true, rng),
    }
}

/// An LSTM cell whose state begins with maps of the data, and whose input has the mean zero.
struct Encoded {
    input: Linear<f64>,
    hidden: Linear<f64>,
    cell: Linear<f64>,
    norm: LayerNorm<f64>,
    lstm: LstmCell<f64>,
    last: Linear<f64>,
}
emmy::module!(Encoded for f64: input, hidden, cell, norm, lstm, last);

impl Model for Encoded {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        let start = data(pass, &[4, 2], seed);
        let mut state = emmy::nn::LstmState {
            hidden: self.hidden.forward(pass, start),
            cell: self.cell.forward(pass, start),
        };
        for t in 0..2 {
            let x = self.input.forward(pass, data(pass, &[4, 2], seed + t));
            let x = self.norm.forward(pass, x);
            state = self.lstm.forward(pass, x, state);
        }
        self.last.forward(pass, state.hidden + state.cell)
    }
}

fn encoded() -> Encoded {
    let rng = &mut init::rng(0);
    Encoded {
        input: Linear::new(2, 3, true, rng),
        hidden: Linear::new(2, 2, true, rng),
        cell: Linear::new(2, 2, true, rng),
        norm: LayerNorm::plain(0.0),
        lstm: LstmCell::new(3, 2, rng),
        last: Linear::new(2, 2, true, rng),
    }
}

fn laws(model: &impl Model) -> Vec<Law> {
    Trace::of(model, |pass| model.outputs(pass, 0)).laws()
}

fn gradients(model: &impl Model, seed: u64) -> Vec<Tensor<f64>> {
    let tape = Tape::new();
    let pass = Pass::train(&tape, model, 0);
    let y = model.outputs(&pass, seed);
    let target = data(&pass, &y.shape(), seed + 7);
    pass.gradients(y.mse(target))
}

/// The laws with these names hold at random points, and none by 0 = 0.
#[track_caller]
fn states(mut model: impl Model, expected: &[&str]) {
    let laws = laws(&model);
    let names: Vec<&str> = laws.iter().map(|law| &*law.name).collect();
    assert_eq!(names, expected);
    for seed in cases(20) {
        draw_all(&mut model, seed);
        let gradients = gradients(&model, seed);
        for law in &laws {
            let found = measure(law, &model, &gradients);
            assert!(found.worst() < 1e-10, "{}: {}", law.name, found.worst());
            assert!(found.size.iter().all(|&s| s > 1e-9), "{}", law.name);
        }
    }
}

#[test]
fn the_laws_that_are_stated_hold() {
    let read = ["first, neurons", "first, space of neurons"];
    let biases = |layer: &str| format!("{layer}, biases");
    for layers in [1, 2] {
        for (name, states_of) in [("lstm", true), ("gru", false)] {
            let own: Vec<String> = (1..=layers)
                .map(|l| biases(&format!("{name}, layer {l}")))
                .collect();
            let names: Vec<&str> = read.into_iter().chain(own.iter().map(|s| &**s)).collect();
            match states_of {
                true => states(of_lstm(layers), &names),
                false => states(of_gru(layers), &names),
            }
        }
    }
    // The messages of all rounds are read by one weight, and so have one law.
    let names = [
        "message 1, neurons",
        "message 1, space of neurons",
        "cell, biases",
    ];
    states(gated(), &names);
    // No law goes through the state; the norm leaves one to the weight that reads it.
    let names = [
        "input, scale",
        "input, shift, 1",
        "input, shift, 2",
        "lstm, biases",
        "lstm, weight_ih, rows",
    ];
    states(encoded(), &names);
}

fn search(model: &impl Model) -> Discovery {
    discover(model, &Search::default(), |pass, seed| {
        model.outputs(pass, seed)
    })
}

/// These laws are all there are: those of the first map, of whose 2 × 2 matrix the symmetric part is
/// conserved, and one per bias that is only added. No weight has a law of its own.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn there_are_no_others() {
    let cases = [
        ("LSTM", search(&of_lstm(1)), [60, 3 + 8]),
        ("GRU", search(&of_gru(1)), [48, 3 + 4]),
        ("GGNN", search(&gated()), [50, 3 + 4]),
    ];
    for (name, found, [parameters, laws]) in cases {
        let counts = [found.parameters, found.found, found.declared];
        assert_eq!(counts, [parameters, laws, laws], "{name}");
        assert!(found.is_complete(), "{name}: {:?} at most", found.upper);
        assert!(
            found.broken.is_empty() && found.missing.is_empty(),
            "{name}"
        );
    }
}

/// b_in is added outside the reset gate, b_hn inside.
#[test]
fn the_biases_of_the_new_value_of_a_gru_have_no_law() {
    let mut model = of_gru(1);
    let mut wrong = laws(&model).pop().expect("the law of the biases");
    assert_eq!(
        (wrong.neurons(), wrong.symmetry),
        (4, Symmetry::Translation)
    );
    for term in &mut wrong.terms {
        term.slice.range = 4..6;
    }
    let mut found = Vec::new();
    for seed in cases(20) {
        draw_all(&mut model, seed);
        found.extend(measure(&wrong, &model, &gradients(&model, seed)).relative());
    }
    typically(found, 0.1, "the biases of n");
}

/// The gates saturate, so a factor of a neuron's incoming weights cannot be compensated.
#[test]
fn the_neurons_of_a_recurrent_layer_have_no_law() {
    let mut model = of_lstm(1);
    let cell = &model.lstm.layers[0];
    let params = Params::of(&model);
    let [weight_ih, weight_hh] = [&cell.weight_ih, &cell.weight_hh].map(|w| params.rows(w));
    // The output gate alone: it multiplies h.
    let incoming = [weight_ih, weight_hh].map(|w| Term::incoming(w.narrow(6..8)));
    let outgoing = Term::outgoing(params.columns(&model.last.weight));
    let terms = incoming.into_iter().chain([outgoing]).collect();
    let wrong = Law::new("wrong", 1, Symmetry::Rescaling, terms);
    let mut found = Vec::new();
    for seed in cases(20) {
        draw_all(&mut model, seed);
        found.extend(measure(&wrong, &model, &gradients(&model, seed)).relative());
    }
    typically(found, 0.1, "the neurons of an LSTM");
}

/// If a layer reads a state, this gives no laws to the layers that wrote the state.
#[test]
fn the_ports_say_no_more() {
    let model = encoded();
    let ports = model.lstm.ports(&Params::of(&model)).expect("ports");
    assert_eq!(ports.readers.len(), 3);
    assert!(ports.writers.is_empty() && ports.shifts.is_empty() && ports.offsets.is_empty());
    assert!(ports.readers[..2].iter().all(|r| r.terms.is_empty()));
    assert_eq!(ports.readers[2].terms.len(), 1);
}

/// The conserved quantity of the law: under gradient descent the difference of the two biases does not
/// change.
#[test]
fn the_difference_of_the_biases_stays() {
    let mut model = of_lstm(1);
    draw_all(&mut model, 1);
    let difference = |model: &OfLstm| {
        let cell = &model.lstm.layers[0];
        &cell.bias_ih - &cell.bias_hh
    };
    let (before, start) = (difference(&model), model.lstm.layers[0].bias_ih.clone());
    for _ in 0..50 {
        let gradients = gradients(&model, 2);
        for (p, g) in model.tensors_mut().into_iter().zip(&gradients) {
            p.zip_mut_with(g, |p, g| *p -= 0.1 * g);
        }
    }
    approx::assert_abs_diff_eq!(difference(&model), before, epsilon = 1e-13);
    let moved = (&model.lstm.layers[0].bias_ih - &start).fold(0.0_f64, |m, x| m.max(x.abs()));
    assert!(moved > 0.01, "{moved}");
}
