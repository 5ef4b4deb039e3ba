//! Sparse matrices. The loops go over all places (i, j) and ask whether there is an entry.

use super::reference::build;
use super::{Case, Operation, Sampler, function};
use emmy::ops::sparse::{self, Sparse};
use emmy::sparse::Pattern;
use emmy::tensor::{Tensor, tensor};
use std::sync::Arc;

pub(super) fn operations() -> Vec<Operation> {
    let mut all = products();
    all.extend(segments());
    all.extend(matrices());
    all
}

/// The entries as (e, i, j).
fn entries(pattern: &Pattern) -> Vec<(usize, usize, usize)> {
    let mut found = Vec::new();
    for i in 0..pattern.rows() {
        for j in 0..pattern.cols() {
            found.extend(pattern.find(i, j).map(|e| (e, i, j)));
        }
    }
    found
}

/// A pattern with at least one entry, so that derivatives do not vanish.
fn some_pattern(d: &mut Sampler) -> Arc<Pattern> {
    loop {
        let pattern = d.pattern();
        if pattern.nnz() > 0 {
            return pattern;
        }
    }
}

/// [count], or [count, H]; and x of [rows, width], or [rows, H, width].
fn with_heads(d: &mut Sampler) -> (Vec<usize>, Vec<usize>) {
    // Widths that eight or sixteen divide have code of their own in the kernels.
    let width = d.one_of(&[1, 2, 3, 8, 16]);
    if d.flag() {
        let heads = d.one_of(&[1, 2, 3, 8]);
        (vec![heads], vec![heads, width])
    } else {
        (vec![], vec![width])
    }
}

fn shaped(first: usize, rest: &[usize]) -> Vec<usize> {
    [&[first], rest].concat()
}

/// The head that element k of a row belongs to, when the row has `rest` and values have `heads`.
fn head(index: &[usize], with_heads: bool) -> &[usize] {
    if with_heads { &index[1..2] } else { &[] }
}

/// Σ over entries with row (or column) at `index[0]` of value × x at the other end.
fn sum_product(
    pattern: &Pattern,
    s: &Tensor<f64>,
    x: &Tensor<f64>,
    transposed: bool,
) -> Tensor<f64> {
    let rows = if transposed {
        pattern.cols()
    } else {
        pattern.rows()
    };
    build(&shaped(rows, &x.shape()[1..]), |index| {
        let mut sum = 0.0;
        for (e, i, j) in entries(pattern) {
            let (to, from) = if transposed { (j, i) } else { (i, j) };
            if to == index[0] {
                let value = s[&shaped(e, head(index, s.ndim() == 2))[..]];
                sum += value * x[&shaped(from, &index[1..])[..]];
            }
        }
        sum
    })
}

fn products() -> Vec<Operation> {
    vec![
        Operation {
            name: "spmm",
            draw: |d| {
                let pattern = some_pattern(d);
                let (heads, rest) = with_heads(d);
                let args = vec![
                    d.signed(&shaped(pattern.nnz(), &heads)),
                    d.signed(&shaped(pattern.cols(), &rest)),
                ];
                let function = function!([pattern] | x | sparse::spmm(&pattern, x[0], x[1]));
                Case::new(args, function, move |x| {
                    sum_product(&pattern, &x[0], &x[1], false)
                })
            },
        },
        Operation {
            name: "spmm_t",
            draw: |d| {
                let pattern = some_pattern(d);
                let (heads, rest) = with_heads(d);
                let args = vec![
                    d.signed(&shaped(pattern.nnz(), &heads)),
                    d.signed(&shaped(pattern.rows(), &rest)),
                ];
                let function = function!([pattern] | x | sparse::spmm_t(&pattern, x[0], x[1]));
                Case::new(args, function, move |x| {
                    sum_product(&pattern, &x[0], &x[1], true)
                })
            },
        },
        Operation {
            name: "sddmm",
            draw: |d| {
                let pattern = some_pattern(d);
                let (heads, rest) = with_heads(d);
                let args = vec![
                    d.signed(&shaped(pattern.rows(), &rest)),
                    d.signed(&shaped(pattern.cols(), &rest)),
                ];
                let function = function!([pattern] | x | sparse::sddmm(&pattern, x[0], x[1]));
                Case::new(args, function, move |x| {
                    let all = entries(&pattern);
                    build(&shaped(pattern.nnz(), &heads), |index| {
                        let (_, i, j) = all[index[0]];
                        let width = x[0].shape()[x[0].ndim() - 1];
                        let term = |c: usize| {
                            let rest = [&index[1..], &[c]].concat();
                            x[0][&shaped(i, &rest)[..]] * x[1][&shaped(j, &rest)[..]]
                        };
                        (0..width).map(term).sum()
                    })
                })
            },
        },
        Operation {
            name: "sddmm_add",
            draw: |d| {
                let pattern = some_pattern(d);
                let (_, rest) = with_heads(d);
                let args = vec![
                    d.signed(&shaped(pattern.rows(), &rest)),
                    d.signed(&shaped(pattern.cols(), &rest)),
                ];
                let function = function!([pattern] | x | sparse::sddmm_add(&pattern, x[0], x[1]));
                Case::new(args, function, move |x| {
                    let all = entries(&pattern);
                    build(&shaped(pattern.nnz(), &rest), |index| {
                        let (_, i, j) = all[index[0]];
                        x[0][&shaped(i, &index[1..])[..]] + x[1][&shaped(j, &index[1..])[..]]
                    })
                })
            },
        },
    ]
}

/// Values of the entries of a row, for each further index: `f(values)` per row.
fn per_row(
    pattern: &Pattern,
    v: &Tensor<f64>,
    columns: bool,
    f: impl Fn(&[f64]) -> f64,
) -> Tensor<f64> {
    let rows = if columns {
        pattern.cols()
    } else {
        pattern.rows()
    };
    build(&shaped(rows, &v.shape()[1..]), |index| {
        let own = entries(pattern)
            .into_iter()
            .filter(|&(_, i, j)| index[0] == if columns { j } else { i });
        let values: Vec<f64> = own.map(|(e, ..)| v[&shaped(e, &index[1..])[..]]).collect();
        f(&values)
    })
}

fn largest_or_zero(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).unwrap_or(0.0)
}

fn softmax_of_rows(pattern: &Pattern, v: &Tensor<f64>) -> Tensor<f64> {
    let totals = per_row(pattern, v, false, |values| {
        values.iter().map(|v| v.exp()).sum()
    });
    let all = entries(pattern);
    build(v.shape(), |index| {
        v[index].exp() / totals[&shaped(all[index[0]].1, &index[1..])[..]]
    })
}

/// Values on a pattern that has at least two entries in the first row, so that its softmax is not constant.
fn scored(d: &mut Sampler) -> (Arc<Pattern>, Tensor<f64>) {
    let (n, m) = (d.count(1, 4), d.count(2, 4));
    let mut pairs: Vec<(usize, usize)> = (0..n).flat_map(|i| (0..m).map(move |j| (i, j))).collect();
    pairs.retain(|&(i, j)| (i == 0 && j < 2) || d.flag());
    let pattern = Pattern::from_pairs(n, m, &pairs).unwrap_or_else(|e| panic!("{e}"));
    let (heads, _) = with_heads(d);
    let values = d.distinct(&shaped(pattern.nnz(), &heads));
    (pattern, values)
}

fn segments() -> Vec<Operation> {
    vec![
        Operation {
            name: "gather_rows",
            draw: |d| {
                let pattern = some_pattern(d);
                let (_, rest) = with_heads(d);
                let function = function!([pattern] | x | sparse::gather_rows(&pattern, x[0]));
                Case::new(
                    vec![d.signed(&shaped(pattern.rows(), &rest))],
                    function,
                    move |x| {
                        let all = entries(&pattern);
                        build(&shaped(pattern.nnz(), &rest), |index| {
                            x[0][&shaped(all[index[0]].1, &index[1..])[..]]
                        })
                    },
                )
            },
        },
        Operation {
            name: "gather_columns",
            draw: |d| {
                let pattern = some_pattern(d);
                let (_, rest) = with_heads(d);
                let function = function!([pattern] | x | sparse::gather_columns(&pattern, x[0]));
                Case::new(
                    vec![d.signed(&shaped(pattern.cols(), &rest))],
                    function,
                    move |x| {
                        let all = entries(&pattern);
                        build(&shaped(pattern.nnz(), &rest), |index| {
                            x[0][&shaped(all[index[0]].2, &index[1..])[..]]
                        })
                    },
                )
            },
        },
        Operation {
            name: "segment_sum",
            draw: |d| {
                let (pattern, v) = scored(d);
                let function = function!([pattern] | x | sparse::segment_sum(&pattern, x[0]));
                Case::new(vec![v], function, move |x| {
                    per_row(&pattern, &x[0], false, |v| v.iter().sum())
                })
            },
        },
        Operation {
            name: "segment_sum_columns",
            draw: |d| {
                let (pattern, v) = scored(d);
                let function =
                    function!([pattern] | x | sparse::segment_sum_columns(&pattern, x[0]));
                Case::new(vec![v], function, move |x| {
                    per_row(&pattern, &x[0], true, |v| v.iter().sum())
                })
            },
        },
        Operation {
            name: "segment_mean",
            draw: |d| {
                let (pattern, v) = scored(d);
                let function = function!([pattern] | x | sparse::segment_mean(&pattern, x[0]));
                Case::new(vec![v], function, move |x| {
                    per_row(&pattern, &x[0], false, |v| {
                        v.iter().sum::<f64>() / v.len().max(1) as f64
                    })
                })
            },
        },
        Operation {
            name: "segment_max",
            draw: |d| {
                let (pattern, v) = scored(d);
                let function = function!([pattern] | x | sparse::segment_max(&pattern, x[0]));
                Case::new(vec![v], function, move |x| {
                    per_row(&pattern, &x[0], false, largest_or_zero)
                })
            },
        },
        Operation {
            name: "segment_softmax",
            draw: |d| {
                let (pattern, v) = scored(d);
                let function = function!([pattern] | x | sparse::segment_softmax(&pattern, x[0]));
                Case::new(vec![v], function, move |x| softmax_of_rows(&pattern, &x[0]))
            },
        },
    ]
}

fn matrices() -> Vec<Operation> {
    vec![
        Operation {
            name: "Sparse::matmul",
            draw: |d| {
                let pattern = some_pattern(d);
                let args = vec![d.signed(&[pattern.nnz()]), d.signed(&[pattern.cols(), 2])];
                let function = function!([pattern] | x | Sparse::new(&pattern, x[0]).matmul(x[1]));
                Case::new(args, function, move |x| {
                    sum_product(&pattern, &x[0], &x[1], false)
                })
            },
        },
        Operation {
            name: "Sparse::t_matmul",
            draw: |d| {
                let pattern = some_pattern(d);
                let args = vec![d.signed(&[pattern.nnz()]), d.signed(&[pattern.rows(), 2])];
                let function =
                    function!([pattern] | x | Sparse::new(&pattern, x[0]).t_matmul(x[1]));
                Case::new(args, function, move |x| {
                    sum_product(&pattern, &x[0], &x[1], true)
                })
            },
        },
        Operation {
            name: "Sparse::linear",
            draw: |d| {
                let pattern = some_pattern(d);
                let args = vec![d.signed(&[pattern.nnz()]), d.signed(&[2, pattern.cols()])];
                let function = function!([pattern] | x | Sparse::new(&pattern, x[0]).linear(x[1]));
                Case::new(args, function, move |x| {
                    let w = build(&[pattern.cols(), 2], |index| x[1][[index[1], index[0]]]);
                    sum_product(&pattern, &x[0], &w, false)
                })
            },
        },
        Operation {
            name: "Sparse::t",
            draw: |d| {
                let pattern = some_pattern(d);
                let (heads, _) = with_heads(d);
                let function = function!([pattern] | x | Sparse::new(&pattern, x[0]).t().values);
                Case::new(
                    vec![d.signed(&shaped(pattern.nnz(), &heads))],
                    function,
                    move |x| {
                        let mut all = entries(&pattern);
                        all.sort_by_key(|&(_, i, j)| (j, i));
                        build(x[0].shape(), |index| {
                            x[0][&shaped(all[index[0]].0, &index[1..])[..]]
                        })
                    },
                )
            },
        },
        Operation {
            name: "Sparse::row_sums",
            draw: |d| {
                let (pattern, v) = scored(d);
                let function = function!([pattern] | x | Sparse::new(&pattern, x[0]).row_sums());
                Case::new(vec![v], function, move |x| {
                    per_row(&pattern, &x[0], false, |v| v.iter().sum())
                })
            },
        },
        Operation {
            name: "Sparse::column_sums",
            draw: |d| {
                let (pattern, v) = scored(d);
                let function = function!([pattern] | x | Sparse::new(&pattern, x[0]).column_sums());
                Case::new(vec![v], function, move |x| {
                    per_row(&pattern, &x[0], true, |v| v.iter().sum())
                })
            },
        },
        Operation {
            name: "Sparse::softmax",
            draw: |d| {
                let (pattern, v) = scored(d);
                let function =
                    function!([pattern] | x | Sparse::new(&pattern, x[0]).softmax().values);
                Case::new(vec![v], function, move |x| softmax_of_rows(&pattern, &x[0]))
            },
        },
        Operation {
            name: "Sparse::to_dense",
            draw: |d| {
                let pattern = some_pattern(d);
                let (heads, _) = with_heads(d);
                let function = function!([pattern] | x | Sparse::new(&pattern, x[0]).to_dense());
                Case::new(
                    vec![d.signed(&shaped(pattern.nnz(), &heads))],
                    function,
                    move |x| {
                        let (n, m) = pattern.shape();
                        let mut dense = vec![];
                        for i in 0..n {
                            for j in 0..m {
                                let place = pattern.find(i, j);
                                let width: usize = x[0].shape()[1..].iter().product();
                                dense.extend((0..width).map(|h| {
                                    let at = |e: usize| x[0].iter().nth(e * width + h).copied();
                                    place.and_then(at).unwrap_or(0.0)
                                }));
                            }
                        }
                        tensor(&[&[n, m], &x[0].shape()[1..]].concat(), dense)
                    },
                )
            },
        },
    ]
}
