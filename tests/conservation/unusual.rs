//! Laws where a pass is unusual: parameters among the outputs or inputs, layers used twice, heads of several
//! numbers, copies without derivatives. For each of these a law was listed once that does not hold.

use crate::support::{draw_all, loss_of, normal};
use emmy::autodiff::Map;
use emmy::nn::{
    AttentionConfig, AttentionOptions, GatConv, KeyValues, Layer, Linear, Module,
    MultiHeadAttention, Params, Pass, Trace,
};
use emmy::ops::attention::Mask;
use emmy::sparse::Pattern;
use emmy::symmetry::Ports;
use emmy::testing::tolerance;
use emmy::{Tape, Tensor, Var, init};

fn linear(inputs: usize, outputs: usize, seed: u64) -> Linear<f64> {
    let mut layer = Linear::new(inputs, outputs, true, &mut init::rng(seed));
    draw_all(&mut layer, seed);
    layer
}

/// Rows of the data, as a constant.
fn data<'t>(pass: &Pass<'t, '_, f64>, rows: usize, seed: u64) -> Var<'t, f64> {
    pass.tape().constant(normal(&[rows, 3], 1000 + seed))
}

/// Every law that is listed holds. Returns their names.
#[track_caller]
fn names_of_true_laws(
    model: &impl Module<f64>,
    forward: impl for<'t, 'm> Fn(&Pass<'t, 'm, f64>) -> Vec<Var<'t, f64>>,
) -> Vec<String> {
    let trace = Trace::of_several(model, |pass| forward(pass));
    let lists = [(trace.laws(), false), (trace.softmax_laws(), true)];
    for (laws, softmax) in &lists {
        let tape = Tape::new();
        let pass = Pass::train(&tape, model, 0);
        let gradients = pass.gradients(loss_of(&forward(&pass), *softmax));
        for law in laws {
            let found = law.measure(&model.tensors(), &gradients);
            for (delta, size) in found.delta.iter().zip(&found.size) {
                assert!(
                    delta.abs() <= tolerance::<f64>() * size.max(1e-3),
                    "{}: {} = {delta}, size {size}",
                    law.name,
                    law.formula(trace.names())
                );
            }
        }
    }
    lists
        .into_iter()
        .flat_map(|(laws, _)| laws)
        .map(|law| law.name)
        .collect()
}

struct Net {
    l: Vec<Linear<f64>>,
}
emmy::module!(Net for f64: l);

/// Maps 3 → 4, 4 → 2, 3 → 4, 4 → 4.
fn net() -> Net {
    let sizes = [(3, 4), (4, 2), (3, 4), (4, 4)];
    let layers = sizes
        .iter()
        .zip(1..)
        .map(|(&(i, o), seed)| linear(i, o, seed));
    Net {
        l: layers.collect(),
    }
}

#[test]
fn a_parameter_may_be_an_output() {
    let net = net();
    let listed = names_of_true_laws(&net, |pass| {
        let h = net.l[0].forward(pass, data(pass, 5, 0)).relu();
        vec![net.l[1].forward(pass, h), pass.param(&net.l[0].weight)]
    });
    assert!(
        listed.iter().all(|name| !name.contains("neurons")),
        "{listed:?}"
    );
    names_of_true_laws(&net, |pass| {
        let h = net.l[0].forward(pass, data(pass, 5, 0));
        let bias = net.l[0].bias.as_ref().unwrap();
        vec![h - h.mean(&[0], true), pass.param(bias)]
    });
    names_of_true_laws(&net, |pass| {
        let h = net.l[0].forward(pass, data(pass, 5, 0));
        vec![h.softmax(-1), pass.param(&net.l[0].weight)]
    });
}

#[test]
fn a_layer_that_is_multiplied_may_be_used_twice() {
    let net = net();
    let [once, twice] = [false, true].map(|twice| of_product(&net, twice));
    let gated = |names: &[String]| names.iter().filter(|n| n.contains("neurons")).count();
    assert!(gated(&once) > gated(&twice), "{once:?}\n{twice:?}");
}

fn of_product(net: &Net, twice: bool) -> Vec<String> {
    names_of_true_laws(net, |pass| {
        let u = net.l[0].forward(pass, data(pass, 5, 0));
        let g = net.l[2].forward(pass, data(pass, 5, 1));
        let mut outputs = vec![net.l[1].forward(pass, u * g)];
        if twice {
            outputs.push(net.l[0].forward(pass, data(pass, 5, 2)).tanh());
        }
        outputs
    })
}

struct Heads {
    two: GatConv<f64>,
    four: GatConv<f64>,
    map: Linear<f64>,
    last: Linear<f64>,
}
emmy::module!(Heads for f64: two, four, map, last);

#[test]
fn heads_of_several_numbers_may_be_added() {
    let pairs = [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (0, 1),
        (1, 0),
        (1, 2),
        (2, 3),
        (3, 0),
    ];
    let pattern = Pattern::from_pairs(4, 4, &pairs).unwrap();
    let options = |heads| AttentionOptions {
        heads,
        bias: false,
        ..AttentionOptions::DEFAULT
    };
    let rng = &mut init::rng(0);
    let mut net = Heads {
        two: GatConv::new(3, 2, options(2), rng),
        four: GatConv::new(3, 1, options(4), rng),
        map: linear(3, 4, 5),
        last: linear(4, 2, 6),
    };
    draw_all(&mut net, 7);
    let sum = |which: usize| {
        names_of_true_laws(&net, |pass| {
            let x = data(pass, 4, 0);
            let two = net.two.forward(pass, x, &pattern);
            let h = match which {
                0 => two + net.map.forward(pass, x),
                1 => two + net.four.forward(pass, x, &pattern),
                2 => two.rms_norm(None, 0.1),
                _ => two,
            };
            vec![net.last.forward(pass, h)]
        })
    };
    let has = |names: &[String], what: &str| names.iter().any(|name| name.ends_with(what));
    for which in [0, 1] {
        let names = sum(which);
        assert!(
            has(&names, "two, neurons") && !has(&names, "space of neurons"),
            "{names:?}"
        );
    }
    let names = sum(2);
    assert!(has(&names, "two, head 2, turns"), "{names:?}");
    let names = sum(3);
    assert!(has(&names, "two, head 2, space of neurons"), "{names:?}");
}

struct Attending {
    attention: MultiHeadAttention<f64>,
    map: Linear<f64>,
}
emmy::module!(Attending for f64: attention, map);

#[test]
fn layers_may_read_themselves_and_a_cache() {
    let config = AttentionConfig::new(4, 2);
    let mut net = Attending {
        attention: MultiHeadAttention::new(config, &mut init::rng(3)).unwrap(),
        map: linear(3, 4, 8),
    };
    draw_all(&mut net, 9);
    names_of_true_laws(&net, |pass| {
        let mut cache = KeyValues::new();
        let mut continued = |seed| {
            let x = net.map.forward(pass, data(pass, 2, seed));
            net.attention.continued(pass, x, &mut cache)
        };
        vec![continued(0), continued(1)]
    });
    names_of_true_laws(&net, |pass| {
        let own = pass.param(&net.attention.value.weight);
        vec![net.attention.forward(pass, own, &Mask::none())]
    });
    let plain = self::net();
    names_of_true_laws(&plain, |pass| {
        let h = plain.l[3]
            .forward(pass, pass.param(&plain.l[3].weight))
            .relu();
        vec![plain.l[1].forward(pass, h)]
    });
}

#[test]
fn rows_may_be_repeated_in_two_orders() {
    let net = net();
    names_of_true_laws(&net, |pass| {
        let h = net.l[0].forward(pass, data(pass, 3, 0));
        let repeated = |shape: &[usize]| h.reshape(shape).broadcast_to(&[3, 3, 4]);
        vec![repeated(&[3, 1, 4]) - repeated(&[1, 3, 4])]
    });
    // By an operation of one's own.
    names_of_true_laws(&net, |pass| {
        let h = net.l[0].forward(pass, data(pass, 3, 0));
        let repeated = |order: [usize; 6]| {
            let y = h.index_select(0, order.to_vec()).value();
            h.unary(Map::Broadcast, y, move |p| {
                p.gy().index_add(0, order.to_vec(), 3)
            })
        };
        vec![repeated([0, 1, 2, 0, 1, 2]) - repeated([0, 0, 1, 1, 2, 2])]
    });
    // A sum that removes its axis.
    names_of_true_laws(&net, |pass| {
        let h = net.l[0].forward(pass, data(pass, 3, 0));
        let y = h.sum(&[0], false).value();
        vec![h.unary(Map::Sum, y, |p| {
            p.gy().unsqueeze(0).broadcast_to(&p.x().shape())
        })]
    });
}

#[test]
fn what_is_nearly_the_mean_is_not_the_mean() {
    let net = net();
    for axis in [0, -1] {
        names_of_true_laws(&net, |pass| {
            let h = net.l[0].forward(pass, data(pass, 5, 0));
            vec![h - h.mean(&[axis], true).scale(0.999_999_5)]
        });
    }
    let shifts = |scale: f32| {
        let layer = Linear::<f32>::new(3, 49, true, &mut init::rng(0));
        let trace = Trace::of(&layer, |pass| {
            let x = init::normal(&[5, 3], 1.0, &mut init::rng(1));
            let h = layer.forward(pass, pass.tape().constant(x));
            h - h.mean(&[-1], true).scale(scale)
        });
        trace
            .laws()
            .iter()
            .filter(|law| law.name.contains("shift"))
            .count()
    };
    assert_eq!([1.0, 0.9999].map(shifts), [2, 0]);
}

struct Affine {
    w: Tensor<f64>,
    b: Tensor<f64>,
}
emmy::module!(Affine for f64: w, b);

impl Layer<f64> for Affine {
    fn ports(&self, params: &Params<'_, f64>) -> Option<Ports> {
        let rows = [params.rows(&self.w), params.rows(&self.b)];
        Some(Ports::writes(rows).reads([params.columns(&self.w)]))
    }
}

/// What an own layer of a chain computes from its input.
type Body = for<'t> fn(&Pass<'t, '_, f64>, &Chain, Var<'t, f64>) -> Var<'t, f64>;

struct Chain {
    first: Linear<f64>,
    own: Affine,
    last: Linear<f64>,
}
emmy::module!(Chain for f64: first, own, last);

/// The ports name what the tape holds fixed.
#[test]
fn a_layer_may_use_values_without_their_derivatives() {
    let net = Chain {
        first: linear(3, 3, 31),
        own: Affine {
            w: normal(&[4, 3], 32),
            b: normal(&[4], 33),
        },
        last: linear(4, 2, 34),
    };
    let body: [Body; 4] = [
        |pass, net, x| x.linear(pass.param(&net.own.w)) + pass.param(&net.own.b),
        |pass, net, x| x.linear(pass.param(&net.own.w).detach()) + pass.param(&net.own.b),
        |pass, net, x| x.detach().linear(pass.param(&net.own.w)) + pass.param(&net.own.b),
        |pass, net, x| {
            (pass.tape()).no_grad(|| x.linear(pass.param(&net.own.w))) + pass.param(&net.own.b)
        },
    ];
    let listed = body.map(|body| {
        let names = names_of_true_laws(&net, |pass| {
            let x = net.first.forward(pass, data(pass, 5, 0));
            let h = pass.call(&net.own, &[x], || body(pass, &net, x)).relu();
            vec![net.last.forward(pass, h)]
        });
        names.len()
    });
    assert_eq!(listed, [5, 2, 3, 2]);
}
