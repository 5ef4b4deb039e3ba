//! Wrong shapes: the message states the given and the expected shape.

use emmy::nn::{Gru, GruCell, Lstm, LstmCell, Pass};
use emmy::{Tape, Tensor, init};

#[track_caller]
fn refuses(expected: &str, f: impl for<'t> FnOnce(&'t Tape<f64>)) {
    let run = std::panic::AssertUnwindSafe(|| f(&Tape::new()));
    let payload = std::panic::catch_unwind(run).expect_err(expected);
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).to_owned());
    assert_eq!(text, expected);
}

#[test]
fn wrong_shapes_are_refused_with_a_sentence() {
    let rng = &mut init::rng(0);
    let (cell, lstm) = (
        LstmCell::<f64>::new(3, 2, rng),
        Lstm::<f64>::new(3, 2, 2, rng),
    );
    let (unit, gru) = (
        GruCell::<f64>::new(3, 2, rng),
        Gru::<f64>::new(3, 2, 2, rng),
    );
    let z = |tape: &Tape<f64>, shape: &[usize]| tape.constant(Tensor::zeros(shape)).value();
    refuses(
        "LstmCell: x has shape [4, 5], the weight reads 3 features: x must be [n, 3]",
        |tape| {
            let pass = Pass::eval(tape, &cell);
            cell.forward(&pass, tape.constant(z(tape, &[4, 5])), cell.start(&pass, 4));
        },
    );
    refuses(
        "LstmCell: a state has shape [1, 2], it must be [4, 2]: one row per row of x",
        |tape| {
            let pass = Pass::eval(tape, &cell);
            cell.forward(&pass, tape.constant(z(tape, &[4, 3])), cell.start(&pass, 1));
        },
    );
    refuses(
        "GruCell: x has shape [4, 1, 3], the weight reads 3 features: x must be [n, 3]",
        |tape| {
            let pass = Pass::eval(tape, &unit);
            unit.forward(
                &pass,
                tape.constant(z(tape, &[4, 1, 3])),
                unit.start(&pass, 4),
            );
        },
    );
    refuses(
        "Lstm: x has shape [4, 3], the weight reads 3 features: x must be [batch, time, 3], \
         with one step of time or more",
        |tape| {
            lstm.forward(
                &Pass::eval(tape, &lstm),
                tape.constant(z(tape, &[4, 3])),
                None,
            );
        },
    );
    refuses(
        "Gru: x has shape [4, 0, 3], the weight reads 3 features: x must be [batch, time, 3], \
         with one step of time or more",
        |tape| {
            gru.forward(
                &Pass::eval(tape, &gru),
                tape.constant(z(tape, &[4, 0, 3])),
                None,
            );
        },
    );
    refuses(
        "Lstm: 1 states for 2 layers: there must be one per layer",
        |tape| {
            let pass = Pass::eval(tape, &lstm);
            let state = [lstm.layers[0].start(&pass, 4)];
            lstm.forward(&pass, tape.constant(z(tape, &[4, 5, 3])), Some(&state));
        },
    );
    refuses(
        "Gru: a state has shape [5, 2], it must be [4, 2]: one row per row of x",
        |tape| {
            let pass = Pass::eval(tape, &gru);
            let state = [gru.layers[0].start(&pass, 4), gru.layers[1].start(&pass, 5)];
            gru.forward(&pass, tape.constant(z(tape, &[4, 5, 3])), Some(&state));
        },
    );
    refuses("Lstm: it needs at least one layer", |_| {
        let _ = Lstm::<f64>::new(3, 2, 0, &mut init::rng(0));
    });
}
