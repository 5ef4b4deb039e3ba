//! Arithmetic, functions of one number, activations, dropout.

use super::{Case, Function, Operation, Sampler, function, reference};
use emmy::kernels::random::DropMask;
use emmy::tensor::Tensor;

pub(super) fn operations() -> Vec<Operation> {
    let mut all = arithmetic();
    all.extend(functions());
    all.extend(activations());
    all.extend(choices());
    all
}

fn signed(d: &mut Sampler) -> Tensor<f64> {
    let shape = d.any_shape();
    d.signed(&shape)
}

fn positive(d: &mut Sampler) -> Tensor<f64> {
    let shape = d.any_shape();
    d.positive(&shape)
}

fn one(x: Tensor<f64>, function: Function, f: impl Fn(f64) -> f64 + 'static) -> Case {
    Case::new(vec![x], function, move |x| reference::zip(x, |x| f(x[0])))
}

fn two(d: &mut Sampler, function: Function, f: impl Fn(f64, f64) -> f64 + 'static) -> Case {
    let args = d
        .broadcastable(2)
        .iter()
        .map(|shape| d.signed(shape))
        .collect();
    Case::new(args, function, move |x| {
        reference::zip(x, |x| f(x[0], x[1]))
    })
}

fn arithmetic() -> Vec<Operation> {
    vec![
        Operation {
            name: "add",
            draw: |d| two(d, function!(|x| x[0] + x[1]), |a, b| a + b),
        },
        Operation {
            name: "sub",
            draw: |d| two(d, function!(|x| x[0] - x[1]), |a, b| a - b),
        },
        Operation {
            name: "mul",
            draw: |d| two(d, function!(|x| x[0] * x[1]), |a, b| a * b),
        },
        Operation {
            name: "div",
            draw: |d| two(d, function!(|x| x[0] / x[1]), |a, b| a / b),
        },
        Operation {
            name: "neg",
            draw: |d| one(signed(d), function!(|x| -x[0]), |x| -x),
        },
        Operation {
            name: "add_scalar",
            draw: |d| one(signed(d), function!(|x| x[0] + 1.5), |x| x + 1.5),
        },
        Operation {
            name: "sub_scalar",
            draw: |d| one(signed(d), function!(|x| x[0] - 1.5), |x| x - 1.5),
        },
        Operation {
            name: "scale",
            draw: |d| one(signed(d), function!(|x| x[0] * -2.5), |x| -2.5 * x),
        },
        Operation {
            name: "div_scalar",
            draw: |d| one(signed(d), function!(|x| x[0] / 0.8), |x| x / 0.8),
        },
        Operation {
            name: "scalar_add",
            draw: |d| one(signed(d), function!(|x| 1.5 + x[0]), |x| 1.5 + x),
        },
        Operation {
            name: "scalar_sub",
            draw: |d| one(signed(d), function!(|x| 1.5 - x[0]), |x| 1.5 - x),
        },
        Operation {
            name: "scalar_mul",
            draw: |d| one(signed(d), function!(|x| 1.5 * x[0]), |x| 1.5 * x),
        },
        Operation {
            name: "scalar_div",
            draw: |d| one(signed(d), function!(|x| 1.5 / x[0]), |x| 1.5 / x),
        },
    ]
}

fn functions() -> Vec<Operation> {
    vec![
        Operation {
            name: "powf",
            draw: |d| one(positive(d), function!(|x| x[0].powf(2.5)), |x| x.powf(2.5)),
        },
        Operation {
            name: "powf",
            draw: |d| one(signed(d), function!(|x| x[0].powf(3.0)), |x| x * x * x),
        },
        Operation {
            name: "powf",
            draw: |d| one(signed(d), function!(|x| x[0].powf(2.0)), |x| x * x),
        },
        Operation {
            name: "powf",
            draw: |d| one(signed(d), function!(|x| x[0].powf(1.0)), |x| x),
        },
        Operation {
            name: "square",
            draw: |d| one(signed(d), function!(|x| x[0].square()), |x| x * x),
        },
        Operation {
            name: "exp",
            draw: |d| one(signed(d), function!(|x| x[0].exp()), f64::exp),
        },
        Operation {
            name: "ln",
            draw: |d| one(positive(d), function!(|x| x[0].ln()), f64::ln),
        },
        Operation {
            name: "sqrt",
            draw: |d| one(positive(d), function!(|x| x[0].sqrt()), f64::sqrt),
        },
        Operation {
            name: "abs",
            draw: |d| one(signed(d), function!(|x| x[0].abs()), f64::abs),
        },
        Operation {
            name: "sin",
            draw: |d| one(signed(d), function!(|x| x[0].sin()), f64::sin),
        },
        Operation {
            name: "cos",
            draw: |d| one(signed(d), function!(|x| x[0].cos()), f64::cos),
        },
        Operation {
            name: "tanh",
            draw: |d| one(signed(d), function!(|x| x[0].tanh()), f64::tanh),
        },
        Operation {
            name: "clamp",
            draw: |d| {
                // At least two elements inside, so that the derivative does not vanish; none at a limit.
                let x = d.distinct(&[5]);
                one(x, function!(|x| x[0].clamp(-0.1, 0.1)), |x| {
                    x.clamp(-0.1, 0.1)
                })
            },
        },
    ]
}

fn activations() -> Vec<Operation> {
    vec![
        Operation {
            name: "sigmoid",
            draw: |d| {
                one(signed(d), function!(|x| x[0].sigmoid()), |x| {
                    1.0 / (1.0 + (-x).exp())
                })
            },
        },
        Operation {
            name: "relu",
            draw: |d| one(mixed(d), function!(|x| x[0].relu()), |x| x.max(0.0)),
        },
        Operation {
            name: "leaky_relu",
            draw: |d| {
                one(signed(d), function!(|x| x[0].leaky_relu(0.2)), |x| {
                    if x > 0.0 { x } else { 0.2 * x }
                })
            },
        },
        Operation {
            name: "gate",
            draw: |d| {
                let shape = d.any_shape();
                let (x, m) = (d.signed(&shape), d.signed(&shape));
                let by = m.clone();
                Case::new(
                    vec![x],
                    function!([m] | x | x[0].gate(m.mapv(|m| m as F).into_shared(), 0.3)),
                    move |x| {
                        reference::zip(&[x[0].clone(), by.clone()], |x| {
                            if x[1] > 0.0 { x[0] } else { 0.3 * x[0] }
                        })
                    },
                )
            },
        },
        Operation {
            name: "elu",
            draw: |d| {
                one(signed(d), function!(|x| x[0].elu(1.3)), |x| {
                    if x > 0.0 { x } else { 1.3 * (x.exp() - 1.0) }
                })
            },
        },
        Operation {
            name: "gelu",
            draw: |d| {
                one(signed(d), function!(|x| x[0].gelu()), |x| {
                    x * 0.5 * (1.0 + libm::erf(x / 2.0_f64.sqrt()))
                })
            },
        },
        Operation {
            name: "normal_cdf",
            draw: |d| {
                one(signed(d), function!(|x| x[0].normal_cdf()), |x| {
                    0.5 * (1.0 + libm::erf(x / 2.0_f64.sqrt()))
                })
            },
        },
        Operation {
            name: "gelu_tanh",
            draw: |d| {
                one(signed(d), function!(|x| x[0].gelu_tanh()), |x| {
                    0.5 * x
                        * (1.0
                            + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x))
                                .tanh())
                })
            },
        },
        Operation {
            name: "silu",
            draw: |d| {
                one(signed(d), function!(|x| x[0].silu()), |x| {
                    x / (1.0 + (-x).exp())
                })
            },
        },
        Operation {
            name: "mish",
            draw: |d| {
                one(signed(d), function!(|x| x[0].mish()), |x| {
                    x * (1.0 + x.exp()).ln().tanh()
                })
            },
        },
        Operation {
            name: "hardtanh",
            draw: |d| {
                // Away from the kinks.
                let x = signed(d).mapv(|x| {
                    if (x.abs() - 1.0).abs() < 0.05 {
                        0.8 * x
                    } else {
                        x
                    }
                });
                one(x.into_shared(), function!(|x| x[0].hardtanh()), |x| {
                    x.clamp(-1.0, 1.0)
                })
            },
        },
        Operation {
            name: "softplus",
            draw: |d| {
                one(signed(d), function!(|x| x[0].softplus()), |x| {
                    (1.0 + x.exp()).ln()
                })
            },
        },
    ]
}

/// At least one element of each sign.
fn mixed(d: &mut Sampler) -> Tensor<f64> {
    let n = d.count(1, 3);
    let mut x = d.signed(&[n, 2]);
    x[[0, 0]] = x[[0, 0]].abs();
    x
}

fn choices() -> Vec<Operation> {
    vec![
        Operation {
            name: "maximum",
            draw: |d| chosen(d, function!(|x| x[0].maximum(x[1])), f64::max),
        },
        Operation {
            name: "minimum",
            draw: |d| chosen(d, function!(|x| x[0].minimum(x[1])), f64::min),
        },
        Operation {
            name: "where_",
            draw: |d| {
                let shapes = d.broadcastable(2);
                let shape = reference::common_shape(&[&shapes[0], &shapes[1]]);
                let mut mask = d.mask(&shape);
                // Both operands must be chosen somewhere, or a derivative vanishes.
                if let Some(first) = mask.first_mut() {
                    *first = true;
                }
                let mut other = d.signed(&shapes[1]);
                let mut x = d.signed(&shapes[0]);
                if !mask.iter().any(|m| !m) {
                    (x, other) = (d.signed(&[2]), d.signed(&[2]));
                    mask = emmy::tensor::tensor(&[2], vec![true, false]);
                }
                let held = mask.clone();
                Case::new(
                    vec![x, other],
                    function!([mask] | x | x[0].where_(&mask, x[1])),
                    move |x| {
                        let shape =
                            reference::common_shape(&[x[0].shape(), x[1].shape(), held.shape()]);
                        reference::build(&shape, |index| {
                            let own = &index[index.len() - held.ndim()..];
                            if held[own] {
                                reference::at(&x[0], index)
                            } else {
                                reference::at(&x[1], index)
                            }
                        })
                    },
                )
            },
        },
        Operation {
            name: "dropout",
            draw: |d| {
                let (n, seed) = (d.count(8, 12), d.seed());
                Case::new(
                    vec![d.signed(&[n, 3])],
                    function!(|x| x[0].dropout(0.4, seed)),
                    move |x| {
                        let mask = DropMask::new(0.4, seed);
                        reference::build(x[0].shape(), |index| {
                            x[0][index] * mask.factor::<f64>(index[0] * x[0].shape()[1] + index[1])
                        })
                    },
                )
            },
        },
    ]
}

/// Operands whose elements are never close to each other; each operand is the chosen one at some element.
fn chosen(d: &mut Sampler, function: Function, f: impl Fn(f64, f64) -> f64 + 'static) -> Case {
    let a = d.distinct(&[3, 4]);
    let shape = [3, if d.flag() { 1 } else { 4 }];
    let mut b = d.distinct(&shape).mapv(|x| x + 0.025).into_shared();
    b[[0, 0]] = 5.0;
    b[[1, 0]] = -5.0;
    Case::new(vec![a, b], function, move |x| {
        reference::zip(x, |x| f(x[0], x[1]))
    })
}
