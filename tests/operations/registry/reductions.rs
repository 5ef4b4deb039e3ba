//! Sums, extrema, norms, softmax and its relatives.

use super::{Case, Function, Operation, Sampler, function, reference};
use emmy::tensor::Tensor;
use ndarray::Dimension;

pub(super) fn operations() -> Vec<Operation> {
    let mut all = over_axes();
    all.extend(norms());
    all.extend(along_an_axis());
    all
}

/// A reduction over drawn axes; `make` gets them with the flag.
fn reduction(
    d: &mut Sampler,
    x: Tensor<f64>,
    make: fn(Vec<isize>, bool) -> Function,
    f: fn(&[f64]) -> f64,
) -> Case {
    let (axes, keepdims) = (d.axes(x.ndim()), d.flag());
    let function = make(axes.clone(), keepdims);
    Case::new(vec![x], function, move |x| {
        reference::reduce(&x[0], &axes, keepdims, f)
    })
}

/// A reduction over everything.
fn of_all(x: Tensor<f64>, function: Function, f: fn(&[f64]) -> f64) -> Case {
    Case::new(vec![x], function, move |x| {
        reference::reduce(&x[0], &[], false, f)
    })
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn variance(x: &[f64]) -> f64 {
    let centre = mean(x);
    x.iter().map(|x| (x - centre) * (x - centre)).sum::<f64>() / x.len() as f64
}

fn length(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn smallest(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::INFINITY, f64::min)
}

fn largest(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn over_axes() -> Vec<Operation> {
    vec![
        Operation {
            name: "sum",
            draw: |d| {
                let shape = d.any_shape();
                let x = d.signed(&shape);
                reduction(
                    d,
                    x,
                    |axes, keep| function!([axes] | x | x[0].sum(&axes, keep)),
                    |x| x.iter().sum(),
                )
            },
        },
        Operation {
            name: "sum_all",
            draw: |d| {
                let shape = d.any_shape();
                let x = d.signed(&shape);
                of_all(x, function!(|x| x[0].sum_all()), |x| x.iter().sum())
            },
        },
        Operation {
            name: "mean_all",
            draw: |d| {
                // The mean over no elements is NaN, which is not compared.
                let ndim = d.count(0, 3);
                let shape = d.filled(ndim);
                let x = d.signed(&shape);
                of_all(x, function!(|x| x[0].mean_all()), mean)
            },
        },
        Operation {
            name: "max_all",
            draw: |d| {
                let shape = d.filled(2);
                let x = d.distinct(&shape);
                of_all(x, function!(|x| x[0].max_all()), largest)
            },
        },
        Operation {
            name: "min_all",
            draw: |d| {
                let shape = d.filled(2);
                let x = d.distinct(&shape);
                of_all(x, function!(|x| x[0].min_all()), smallest)
            },
        },
        Operation {
            name: "mean",
            draw: |d| {
                let shape = d.filled(3);
                let x = d.signed(&shape);
                reduction(
                    d,
                    x,
                    |axes, keep| function!([axes] | x | x[0].mean(&axes, keep)),
                    mean,
                )
            },
        },
        Operation {
            name: "var",
            draw: |d| {
                // At least two elements in every group: the variance of one is constant.
                let n = d.count(2, 4);
                let x = d.signed(&[n, 3, 2]);
                reduction(
                    d,
                    x,
                    |axes, keep| function!([axes] | x | x[0].var(&axes, keep)),
                    variance,
                )
            },
        },
        Operation {
            name: "max",
            draw: |d| {
                let shape = d.filled(3);
                let x = d.distinct(&shape);
                reduction(
                    d,
                    x,
                    |axes, keep| function!([axes] | x | x[0].max(&axes, keep)),
                    largest,
                )
            },
        },
        Operation {
            name: "min",
            draw: |d| {
                let shape = d.filled(3);
                let x = d.distinct(&shape);
                reduction(
                    d,
                    x,
                    |axes, keep| function!([axes] | x | x[0].min(&axes, keep)),
                    smallest,
                )
            },
        },
    ]
}

fn norms() -> Vec<Operation> {
    vec![
        Operation {
            name: "norm",
            draw: |d| {
                let shape = d.filled(3);
                let x = d.signed(&shape);
                reduction(
                    d,
                    x,
                    |axes, keep| function!([axes] | x | x[0].norm(&axes, keep)),
                    length,
                )
            },
        },
        Operation {
            name: "row_norms",
            draw: |d| {
                let rows = |x: &_| reference::reduce(x, &[1], false, length);
                of_a_matrix(d, function!(|x| x[0].row_norms()), rows)
            },
        },
        Operation {
            name: "column_norms",
            draw: |d| {
                let columns = |x: &_| reference::reduce(x, &[0], false, length);
                of_a_matrix(d, function!(|x| x[0].column_norms()), columns)
            },
        },
        Operation {
            name: "frobenius_norm",
            draw: |d| {
                let all = |x: &_| reference::reduce(x, &[], false, length);
                of_a_matrix(d, function!(|x| x[0].frobenius_norm()), all)
            },
        },
        Operation {
            name: "inf_2_norm",
            draw: |d| {
                let longest = |x: &_| {
                    let rows = reference::reduce(x, &[1], false, length);
                    reference::reduce(&rows, &[], false, largest)
                };
                of_a_matrix(d, function!(|x| x[0].inf_2_norm()), longest)
            },
        },
    ]
}

/// A norm of a drawn matrix.
fn of_a_matrix(
    d: &mut Sampler,
    function: Function,
    reference: impl Fn(&Tensor<f64>) -> Tensor<f64> + 'static,
) -> Case {
    let shape = d.filled(2);
    Case::new(vec![d.signed(&shape)], function, move |x| reference(&x[0]))
}

/// x with an axis of at least two elements: over one element a softmax is constant.
fn lines(d: &mut Sampler) -> (Tensor<f64>, isize) {
    let (a, b, c) = (d.count(2, 4), d.count(2, 4), d.count(2, 3));
    let x = d.signed(&[a, b, c]);
    (x, d.axis(3))
}

/// A mask with at least one element in every line, and two in the first.
fn half_mask(d: &mut Sampler, shape: &[usize]) -> Tensor<bool> {
    let mut mask = d.mask(shape);
    for (index, m) in mask.indexed_iter_mut() {
        *m |= index.slice().iter().sum::<usize>() % 2 == 0 || index.slice().iter().all(|&i| i < 2);
    }
    mask
}

/// The elements of a line that the mask keeps, and whether element k is one of them.
fn masked(
    x: &Tensor<f64>,
    mask: &Tensor<bool>,
    axis: isize,
    f: impl Fn(&[f64], f64, bool) -> f64,
) -> Tensor<f64> {
    let hidden = reference::zip(
        &[
            x.clone(),
            mask.mapv(|m| if m { 0.0 } else { f64::NAN }).into_shared(),
        ],
        |v| v[0] + v[1],
    );
    let plain = x.clone();
    let kept = reference::along(&hidden, axis, |line, k| {
        let kept: Vec<f64> = line.iter().copied().filter(|x| !x.is_nan()).collect();
        f(&kept, line[k], !line[k].is_nan())
    });
    assert_eq!(kept.shape(), plain.shape());
    kept
}

fn along_an_axis() -> Vec<Operation> {
    vec![
        Operation {
            name: "softmax",
            draw: |d| {
                let (x, axis) = lines(d);
                Case::new(vec![x], function!(|x| x[0].softmax(axis)), move |x| {
                    reference::along(&x[0], axis, |line, k| {
                        (line[k] - reference::logsumexp(line)).exp()
                    })
                })
            },
        },
        Operation {
            name: "log_softmax",
            draw: |d| {
                let (x, axis) = lines(d);
                Case::new(vec![x], function!(|x| x[0].log_softmax(axis)), move |x| {
                    reference::along(&x[0], axis, |line, k| line[k] - reference::logsumexp(line))
                })
            },
        },
        Operation {
            name: "logsumexp",
            draw: |d| {
                let (x, axis) = lines(d);
                let keep = d.flag();
                let function = function!(|x| x[0].logsumexp(axis, keep));
                Case::new(vec![x], function, move |x| {
                    reference::reduce(&x[0], &[axis], keep, reference::logsumexp)
                })
            },
        },
        Operation {
            name: "softmax_masked",
            draw: |d| {
                let (x, axis) = lines(d);
                let mask = half_mask(d, x.shape());
                let held = mask.clone();
                Case::new(
                    vec![x],
                    function!([mask] | x | x[0].softmax_masked(axis, &mask)),
                    move |x| {
                        masked(&x[0], &held, axis, |kept, x, on| {
                            if on {
                                (x - reference::logsumexp(kept)).exp()
                            } else {
                                0.0
                            }
                        })
                    },
                )
            },
        },
        Operation {
            name: "logsumexp_masked",
            draw: |d| {
                let (x, axis) = lines(d);
                let keep = d.flag();
                let mask = half_mask(d, x.shape());
                let held = mask.clone();
                Case::new(
                    vec![x],
                    function!([mask] | x | x[0].logsumexp_masked(axis, &mask, keep)),
                    move |x| {
                        let lines =
                            masked(&x[0], &held, axis, |kept, _, _| reference::logsumexp(kept));
                        reference::reduce(&lines, &[axis], keep, |line| line[0])
                    },
                )
            },
        },
        Operation {
            name: "log_softmax_masked",
            draw: |d| {
                let (x, axis) = lines(d);
                let mask = half_mask(d, x.shape());
                let held = mask.clone();
                // The value elsewhere is −∞, of which no difference can be taken: put 0 there.
                let function = function!(
                    [mask] | x | {
                        let zero = x[0].tape().constant(Tensor::<F>::zeros(&[][..]));
                        x[0].log_softmax_masked(axis, &mask).where_(&mask, zero)
                    }
                );
                Case::new(vec![x], function, move |x| {
                    masked(&x[0], &held, axis, |kept, x, on| {
                        if on {
                            x - reference::logsumexp(kept)
                        } else {
                            0.0
                        }
                    })
                })
            },
        },
    ]
}
