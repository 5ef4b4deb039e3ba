//! Refused calls, with their messages and locations; and the meaning of relative δ.

use crate::support::*;
use emmy::nn::{Activation, Layer, Linear, Mlp, Module, Params, Trace, Traced};
use emmy::symmetry::{self, Law, Layout, Ports, Residual, Slice, Symmetry, Term};
use emmy::tensor::tensor;
use emmy::{Tape, Tensor, init};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Two neurons: rows of a 2 × 3 matrix, columns of a 4 × 2.
fn law(symmetry: Symmetry) -> Law {
    let terms = vec![
        Term::incoming(Slice::new(0, [1, 2, 3])),
        Term::outgoing(Slice::new(1, [4, 2, 1])),
    ];
    Law::new("two neurons", 1, symmetry, terms)
}

fn drawn(shapes: &[&[usize]]) -> Vec<Tensor<f64>> {
    let rng = &mut init::rng(1);
    shapes.iter().map(|s| init::normal(s, 1.0, rng)).collect()
}

/// The message of a contract violation.
#[track_caller]
fn refused(expected: &str, f: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err(expected);
    let text = payload.downcast_ref::<String>().expect("a message");
    assert!(
        text.contains(expected),
        "{text:?} does not say {expected:?}"
    );
}

#[test]
fn parameters_and_gradients_must_be_those_of_the_law() {
    let good = drawn(&[&[2, 3], &[4, 2]]);
    let missing = drawn(&[&[2, 3]]);
    let small = drawn(&[&[2, 3], &[3, 2]]);
    let none = "two neurons: there is no parameter 1";
    let other = "two neurons: parameter 1 has not the 8 entries the law speaks of";
    for symmetry in SYMMETRIES {
        let law = law(symmetry);
        for (bad, message) in [(&missing, none), (&small, other)] {
            refused(message, || drop(law.measure(&refs(bad), &good)));
            refused(message, || drop(law.measure(&refs(&good), bad)));
            let before = bad.clone();
            let mut moved = bad.clone();
            refused(message, || {
                law.transform(&mut moved.iter_mut().collect::<Vec<_>>(), 0, 1.0);
            });
            // A refused move changes no parameter.
            assert_eq!(moved, before);
            let tape = Tape::new();
            let vars =
                |x: &[Tensor<f64>]| x.iter().map(|x| tape.var(x.clone())).collect::<Vec<_>>();
            let (good, bad_vars) = (vars(&good), vars(bad));
            refused(message, || {
                drop(symmetry::delta(&law, &bad_vars, &good).value())
            });
            refused(message, || {
                drop(symmetry::delta(&law, &good, &bad_vars).value())
            });
            if symmetry != Symmetry::Rotation {
                refused(message, || drop(law.balance(&refs(bad))));
                refused(message, || {
                    assert!(symmetry::balance(&law, &bad_vars).is_some())
                });
                let c = vec![0.0; law.entries()];
                refused(message, || drop(law.drift(&c, bad, 0.1, 0.0)));
            }
        }
    }
}

#[test]
fn entries_must_be_those_of_the_law() {
    let good = drawn(&[&[2, 3], &[4, 2]]);
    for (symmetry, count) in [
        (Symmetry::Rescaling, 2),
        (Symmetry::Translation, 2),
        (Symmetry::Linear, 4),
        (Symmetry::Rotation, 4),
    ] {
        let law = law(symmetry);
        assert_eq!((law.neurons(), law.entries()), (2, count));
        refused(&format!("two neurons: entry {count} of {count}"), || {
            let mut moved = good.clone();
            law.transform(&mut moved.iter_mut().collect::<Vec<_>>(), count, 1.0);
        });
        let expected = format!("drift: the balance of two neurons is {count} numbers");
        for wrong in [count - 1, count + 1] {
            refused(&expected, || {
                drop(law.drift(&vec![0.0; wrong], &good, 0.1, 0.0))
            });
        }
    }
}

/// One generator per entry of δ. A rotation of two neurons has one plane:
/// its matrix is −1 times its transpose.
#[test]
fn a_law_has_a_generator_per_entry_or_plane() {
    let shapes = [("in", vec![2, 3]), ("out", vec![4, 2])];
    let layout = Layout::new(shapes.map(|(name, shape)| (name.to_owned(), shape)));
    for (symmetry, count) in [
        (Symmetry::Rescaling, 2),
        (Symmetry::Translation, 2),
        (Symmetry::Linear, 4),
        (Symmetry::Rotation, 1),
    ] {
        let all = law(symmetry).generators(&layout);
        assert_eq!(all.len(), count, "{symmetry:?}");
        assert!(all.iter().all(|g| g.entries() > 0), "{symmetry:?}");
    }
    let turn = law(Symmetry::Rotation).generators(&layout).remove(0);
    let opposite = |&(i, j, w): &(usize, usize, f64)| turn.matrix().contains(&(j, i, -w));
    assert!(turn.matrix().iter().all(opposite));
}

/// The panic points at the line of the caller.
#[test]
fn a_refusal_points_at_the_caller() {
    use std::sync::{Arc, Mutex};
    let seen = Arc::new(Mutex::new(Vec::new()));
    let usual = Arc::new(std::panic::take_hook());
    let (log, rest) = (Arc::clone(&seen), Arc::clone(&usual));
    let here = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == here {
            let file = info.location().map_or("", |l| l.file()).to_owned();
            log.lock().expect("no panic holds it").push(file);
        } else {
            rest(info);
        }
    }));
    let (law, bad) = (law(Symmetry::Rescaling), drawn(&[&[2, 3]]));
    let tape = Tape::new();
    let vars: Vec<_> = bad.iter().map(|x| tape.var(x.clone())).collect();
    let mut moved = bad.clone();
    let mut half = law.clone();
    half.terms[0].slice.range = 0..1;
    let calls: [&mut dyn FnMut(); 7] = [
        &mut || drop(law.measure(&refs(&bad), &bad)),
        &mut || drop(law.balance(&refs(&bad))),
        &mut || drop(law.drift(&[0.0; 2], &bad, 0.1, 0.0)),
        &mut || law.transform(&mut moved.iter_mut().collect::<Vec<_>>(), 0, 1.0),
        &mut || drop(symmetry::delta(&law, &vars, &vars).value()),
        &mut || assert!(symmetry::balance(&law, &vars).is_some()),
        &mut || drop(Law::sum("half", &[half.clone()])),
    ];
    for call in calls {
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    }
    std::panic::set_hook(Box::new(move |info| usual(info)));
    let seen = seen.lock().expect("no panic holds it");
    assert_eq!(seen.len(), 7);
    assert!(seen.iter().all(|file| file == file!()), "{seen:?}");
}

#[test]
fn relative_delta_is_that_of_what_is_summed() {
    let measured = Residual {
        delta: vec![0.0, -1.0, 3.0, 0.0],
        size: vec![2.0, 4.0, 3.0, 0.0],
    };
    assert_eq!(measured.relative(), [0.0, 0.25, 1.0, 0.0]);
    assert_eq!(measured.worst(), 1.0);
    // If the size is below the floor, the floor takes its place.
    assert_eq!(measured.worst_above(10.0), 0.3);
    assert_eq!(measured.worst_above(3.5), 3.0 / 3.5);
    assert_eq!(measured.worst_above(0.0), 1.0);
    for k in [0, 2] {
        let mut broken = measured.clone();
        broken.delta[k] = f64::NAN;
        broken.size[k] = f64::NAN;
        assert!(broken.worst().is_nan() && broken.worst_above(10.0).is_nan());
    }
}

/// The weight of a neuron that is never active has no derivative: 0 of 0 is 0.
#[test]
fn a_dead_neuron_keeps_its_law() {
    let mut net: Mlp<f64> = mlp(&[3, 4, 2], Activation::Relu, true, 1);
    let problem = example(3, Loss::SquaredError, 1);
    net.layers[0].bias.as_mut().unwrap()[[2]] = -100.0;
    let (_, gradients) = point(&net, &problem);
    let found = measure(&net.laws()[0], &net, &gradients);
    assert_eq!((found.delta[2], found.size[2]), (0.0, 0.0));
    assert_eq!(found.relative()[2], 0.0);
    assert!(
        found
            .size
            .iter()
            .enumerate()
            .all(|(j, s)| j == 2 || *s > 0.0)
    );
    assert!(found.worst() < 1e-10);
}

#[test]
fn sizes_sum_what_delta_sums() {
    let theta = [tensor(&[1, 2], vec![1.0, -2.0]), tensor(&[1, 1], vec![3.0])];
    let g = [tensor(&[1, 2], vec![5.0, 1.0]), tensor(&[1, 1], vec![-1.0])];
    let terms = || {
        vec![
            Term::incoming(Slice::new(0, [1, 1, 2])),
            Term::outgoing(Slice::new(1, [1, 1, 1])).times(2.0),
        ]
    };
    let at = |symmetry| Law::new("one", 1, symmetry, terms()).measure(&refs(&theta), &g);
    let found = at(Symmetry::Rescaling);
    assert_eq!((found.delta[0], found.size[0]), (5.0 - 2.0 + 6.0, 13.0));
    let found = at(Symmetry::Translation);
    assert_eq!((found.delta[0], found.size[0]), (5.0 + 1.0 + 2.0, 7.0));
    let found = at(Symmetry::Linear);
    assert_eq!((found.delta[0], found.size[0]), (5.0 - 2.0 + 3.0, 10.0));
    let found = at(Symmetry::Rotation);
    assert_eq!((found.delta[0], found.size[0]), (0.0, 20.0));
}

#[test]
#[should_panic(expected = "a tensor of shape [4, 3] is not a parameter of the model of this pass")]
fn a_layer_names_only_parameters_of_the_model() {
    let net: Mlp<f64> = mlp(&[3, 4, 2], Activation::Relu, true, 1);
    let copy = net.clone();
    let _ = copy.layers[0].ports(&Params::of(&net));
}

#[test]
fn laws_speak_of_places_so_a_copy_has_them_too() {
    let net: Mlp<f64> = mlp(&[3, 4, 2], Activation::Relu, true, 1);
    let copy = net.clone();
    assert_eq!(net.laws(), copy.laws());
    assert_eq!(net.tensors().len(), 4);
}

/// A layer with the ports that a test gives it.
struct Told {
    layer: Linear<f64>,
    change: fn(&mut Ports),
}
emmy::module!(Told for f64: layer);

impl Layer<f64> for Told {
    fn ports(&self, params: &Params<'_, f64>) -> Option<Ports> {
        let mut ports = self.layer.ports(params)?;
        (self.change)(&mut ports);
        Some(ports)
    }
}

#[test]
fn ports_must_fit_the_shapes() {
    struct Net {
        first: Told,
        last: Told,
    }
    emmy::module!(Net for f64: first, last);
    let told = |first: fn(&mut Ports), last: fn(&mut Ports)| {
        let layer = |input, out, change| Told {
            layer: Linear::new(input, out, true, &mut init::rng(1)),
            change,
        };
        let net = Net {
            first: layer(3, 4, first),
            last: layer(4, 2, last),
        };
        Trace::of(&net, |pass| {
            let x = pass
                .tape()
                .constant(init::normal(&[5, 3], 1.0, &mut init::rng(2)));
            let x = pass.call(&net.first, &[x], || net.first.layer.forward(pass, x));
            let x = x.relu();
            pass.call(&net.last, &[x], || net.last.layer.forward(pass, x))
        })
        .laws()
    };
    assert_eq!(told(|_| (), |_| ()).len(), 1);
    refused(
        "first: ports with a writer of 3 neurons, the output has 4",
        || {
            drop(told(
                |ports| ports.writers[0] = ports.writers[0].narrow(0..3),
                |_| (),
            ));
        },
    );
    refused(
        "last: ports with a reader of 3 neurons, the input has 4",
        || {
            drop(told(
                |_| (),
                |ports| ports.readers[0].terms[0] = ports.readers[0].terms[0].narrow(0..3),
            ));
        },
    );
    for (heads, message) in [
        (0, "ports with 0 heads for 4 neurons"),
        (3, "ports with 3 heads for 4 neurons"),
    ] {
        let change: fn(&mut Ports) = match heads {
            0 => |ports| ports.heads = 0,
            _ => |ports| ports.heads = 3,
        };
        refused(message, || drop(told(change, |_| ())));
    }
    refused("what writes the output must be stated too", || {
        drop(told(|ports| ports.writers.clear(), |_| ()));
    });
}
