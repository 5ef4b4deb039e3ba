//! Shapes, selections, products of matrices.

use super::reference::{at, build, common_shape, numbered};
use super::{Case, Operation, function};
use emmy::autodiff::Var;
use emmy::tensor::{Tensor, tensor};

pub(super) fn operations() -> Vec<Operation> {
    let mut all = arrangements();
    all.extend(parts());
    all.extend(products());
    all
}

fn same_elements(shape: Vec<usize>) -> impl Fn(&[Tensor<f64>]) -> Tensor<f64> {
    move |x| tensor(&shape, x[0].iter().copied().collect())
}

fn arrangements() -> Vec<Operation> {
    vec![
        Operation {
            name: "broadcast_to",
            draw: |d| {
                let shapes = d.broadcastable(2);
                let shape = common_shape(&[&shapes[0], &shapes[1]]);
                let to = shape.clone();
                Case::new(
                    vec![d.signed(&shapes[0])],
                    function!([to] | x | x[0].broadcast_to(&to)),
                    move |x| build(&shape, |index| at(&x[0], index)),
                )
            },
        },
        Operation {
            name: "sum_to",
            draw: |d| {
                let shapes = d.broadcastable(2);
                let whole = common_shape(&[&shapes[0], &shapes[1]]);
                let to = shapes[0].clone();
                let small = to.clone();
                Case::new(
                    vec![d.signed(&whole)],
                    function!([to] | x | x[0].sum_to(&to)),
                    move |x| {
                        // Each element of the large tensor is added to the element from which broadcasting
                        // would take it.
                        let mut y = Tensor::zeros(&small[..]);
                        let places = build(x[0].shape(), |_| 0.0);
                        for (index, _) in places.indexed_iter() {
                            let index = ndarray::Dimension::slice(&index).to_vec();
                            let own = &index[index.len() - small.len()..];
                            let place: Vec<usize> = (own.iter().zip(&small))
                                .map(|(&i, &s)| if s == 1 { 0 } else { i })
                                .collect();
                            y[&place[..]] += x[0][&index[..]];
                        }
                        y
                    },
                )
            },
        },
        Operation {
            name: "reshape",
            draw: |d| {
                let shape = d.shape(3);
                let to = vec![shape[0] * shape[1], shape[2]];
                Case::new(
                    vec![d.signed(&shape)],
                    function!([to] | x | x[0].reshape(&to)),
                    same_elements(to),
                )
            },
        },
        Operation {
            name: "reshape",
            draw: |d| {
                let shape = d.filled(3);
                let first = d.flag();
                let to = match first {
                    true => [shape[0], shape[1] * shape[2]],
                    false => [shape[0] * shape[1], shape[2]],
                };
                let open = match first {
                    true => [to[0] as isize, -1],
                    false => [-1, to[1] as isize],
                };
                Case::new(
                    vec![d.signed(&shape)],
                    function!(|x| x[0].reshape(&open)),
                    same_elements(to.to_vec()),
                )
            },
        },
        Operation {
            name: "unsqueeze",
            draw: |d| {
                let shape = d.shape(2);
                let axis = d.axis(3);
                let mut to = shape.clone();
                to.insert(numbered(&[axis], 3)[0], 1);
                Case::new(
                    vec![d.signed(&shape)],
                    function!(|x| x[0].unsqueeze(axis)),
                    same_elements(to),
                )
            },
        },
        Operation {
            name: "squeeze",
            draw: |d| {
                let mut shape = d.shape(3);
                let axis = d.axis(3);
                let place = numbered(&[axis], 3)[0];
                shape[place] = 1;
                let mut to = shape.clone();
                to.remove(place);
                Case::new(
                    vec![d.signed(&shape)],
                    function!(|x| x[0].squeeze(axis)),
                    same_elements(to),
                )
            },
        },
        Operation {
            name: "permute",
            draw: |d| {
                let (shape, order) = (d.shape(3), d.permutation(3));
                let from_end = d.flag();
                let axis = |&a: &usize| a as isize - if from_end { 3 } else { 0 };
                let axes: Vec<isize> = order.iter().map(axis).collect();
                Case::new(
                    vec![d.signed(&shape)],
                    function!([axes] | x | x[0].permute(&axes)),
                    move |x| {
                        let to: Vec<usize> = order.iter().map(|&a| x[0].shape()[a]).collect();
                        build(&to, |index| {
                            let mut from = [0; 3];
                            order.iter().zip(index).for_each(|(&a, &i)| from[a] = i);
                            x[0][&from[..]]
                        })
                    },
                )
            },
        },
        Operation {
            name: "transpose",
            draw: |d| {
                let (shape, a, b) = (d.shape(3), d.axis(3), d.axis(3));
                Case::new(
                    vec![d.signed(&shape)],
                    function!(|x| x[0].transpose(a, b)),
                    move |x| {
                        let (a, b) = (numbered(&[a], 3)[0], numbered(&[b], 3)[0]);
                        swapped(&x[0], a, b)
                    },
                )
            },
        },
        Operation {
            name: "t",
            draw: |d| {
                let shape = d.shape(3);
                Case::new(vec![d.signed(&shape)], function!(|x| x[0].t()), |x| {
                    swapped(&x[0], 1, 2)
                })
            },
        },
    ]
}

fn swapped(x: &Tensor<f64>, a: usize, b: usize) -> Tensor<f64> {
    let mut to = x.shape().to_vec();
    to.swap(a, b);
    build(&to, |index| {
        let mut from = index.to_vec();
        from.swap(a, b);
        x[&from[..]]
    })
}

fn parts() -> Vec<Operation> {
    vec![
        Operation {
            name: "slice",
            draw: |d| {
                let (shape, axis) = (d.filled(3), d.axis(3));
                let place = numbered(&[axis], 3)[0];
                let start = d.count(0, shape[place] - 1);
                let end = d.count(start, shape[place]);
                // A part without elements, or all of them, is a part too; its derivative by the rest is 0.
                let end = end.max(start + usize::from(d.count(0, 9) > 0));
                Case::new(
                    vec![d.signed(&shape)],
                    function!(|x| x[0].slice(axis, start..end)),
                    move |x| {
                        let mut to = x[0].shape().to_vec();
                        to[place] = end - start;
                        build(&to, |index| {
                            let mut from = index.to_vec();
                            from[place] += start;
                            x[0][&from[..]]
                        })
                    },
                )
            },
        },
        Operation {
            name: "pad",
            draw: |d| {
                let (shape, axis, before, after) =
                    (d.shape(3), d.axis(3), d.count(0, 2), d.count(0, 2));
                Case::new(
                    vec![d.signed(&shape)],
                    function!(|x| x[0].pad(axis, before, after)),
                    move |x| {
                        let place = numbered(&[axis], 3)[0];
                        let mut to = x[0].shape().to_vec();
                        to[place] += before + after;
                        build(&to, |index| {
                            let mut from = index.to_vec();
                            match from[place].checked_sub(before) {
                                Some(i) if i < x[0].shape()[place] => {
                                    from[place] = i;
                                    x[0][&from[..]]
                                }
                                _ => 0.0,
                            }
                        })
                    },
                )
            },
        },
        Operation {
            name: "concat",
            draw: |d| {
                let (shape, axis) = (d.shape(3), d.axis(3));
                let place = numbered(&[axis], 3)[0];
                let args = (0..3).map(|_| {
                    let mut own = shape.clone();
                    own[place] = d.count(0, 3);
                    d.signed(&own)
                });
                Case::new(
                    args.collect(),
                    function!(|x| Var::concat(x, axis)),
                    move |x| joined(x, place),
                )
            },
        },
        Operation {
            name: "stack",
            draw: |d| {
                let (shape, axis) = (d.shape(2), d.axis(3));
                let args = (0..3).map(|_| d.signed(&shape)).collect();
                Case::new(args, function!(|x| Var::stack(x, axis)), move |x| {
                    let place = numbered(&[axis], 3)[0];
                    let mut to = x[0].shape().to_vec();
                    to.insert(place, x.len());
                    build(&to, |index| {
                        let mut from = index.to_vec();
                        let k = from.remove(place);
                        x[k][&from[..]]
                    })
                })
            },
        },
        Operation {
            name: "index_select",
            draw: |d| {
                let (shape, axis) = (d.filled(3), d.axis(3));
                let place = numbered(&[axis], 3)[0];
                let indices = (0..d.count(1, 6))
                    .map(|_| d.count(0, shape[place] - 1))
                    .collect::<Vec<_>>();
                let chosen = indices.clone();
                Case::new(
                    vec![d.signed(&shape)],
                    function!([indices] | x | x[0].index_select(axis, indices.clone())),
                    move |x| {
                        let mut to = x[0].shape().to_vec();
                        to[place] = chosen.len();
                        build(&to, |index| {
                            let mut from = index.to_vec();
                            from[place] = chosen[from[place]];
                            x[0][&from[..]]
                        })
                    },
                )
            },
        },
        Operation {
            name: "index_add",
            draw: |d| {
                let (shape, axis) = (d.shape(3), d.axis(3));
                let place = numbered(&[axis], 3)[0];
                let indices = (0..shape[place]).map(|_| d.count(0, 3)).collect::<Vec<_>>();
                let chosen = indices.clone();
                Case::new(
                    vec![d.signed(&shape)],
                    function!([indices] | x | x[0].index_add(axis, indices.clone(), 4)),
                    move |x| {
                        let mut to = x[0].shape().to_vec();
                        to[place] = 4;
                        build(&to, |index| {
                            let hits = chosen
                                .iter()
                                .enumerate()
                                .filter(|(_, i)| **i == index[place]);
                            hits.map(|(k, _)| {
                                let mut from = index.to_vec();
                                from[place] = k;
                                x[0][&from[..]]
                            })
                            .sum()
                        })
                    },
                )
            },
        },
    ]
}

fn joined(x: &[Tensor<f64>], place: usize) -> Tensor<f64> {
    let mut to = x[0].shape().to_vec();
    to[place] = x.iter().map(|x| x.shape()[place]).sum();
    build(&to, |index| {
        let mut from = index.to_vec();
        let mut k = 0;
        while from[place] >= x[k].shape()[place] {
            from[place] -= x[k].shape()[place];
            k += 1;
        }
        x[k][&from[..]]
    })
}

/// Σ_k a[.., i, k] b[.., k, j], the axes before the last two broadcast.
fn product(a: &Tensor<f64>, b: &Tensor<f64>) -> Tensor<f64> {
    let (sa, sb) = (a.shape(), b.shape());
    let (m, inner, n) = (sa[sa.len() - 2], sa[sa.len() - 1], sb[sb.len() - 1]);
    let mut to = common_shape(&[&sa[..sa.len() - 2], &sb[..sb.len() - 2]]);
    to.extend([m, n]);
    build(&to, |index| {
        let (batch, own) = index.split_at(index.len() - 2);
        (0..inner)
            .map(|k| {
                at(a, &[batch, &[own[0], k]].concat()) * at(b, &[batch, &[k, own[1]]].concat())
            })
            .sum()
    })
}

fn products() -> Vec<Operation> {
    vec![
        Operation {
            name: "matmul",
            draw: |d| {
                // Inner sizes of 1 would look like broadcasting in the loop above; 0 gives empty sums.
                let (m, k, n) = (d.count(0, 4), d.count(2, 4), d.count(1, 4));
                Case::new(
                    vec![d.signed(&[m, k]), d.signed(&[k, n])],
                    function!(|x| x[0].matmul(x[1])),
                    |x| product(&x[0], &x[1]),
                )
            },
        },
        Operation {
            name: "matmul",
            draw: |d| {
                let (m, k, n) = (d.count(2, 4), d.count(2, 4), d.count(2, 4));
                let batches: [(&[usize], &[usize]); 5] = [
                    (&[3], &[3]),
                    (&[], &[2]),
                    (&[2, 1], &[3]),
                    (&[1], &[2]),
                    (&[2, 2], &[]),
                ];
                let (a, b) = batches[d.count(0, 4)];
                let args = vec![
                    d.signed(&[a, &[m, k]].concat()),
                    d.signed(&[b, &[k, n]].concat()),
                ];
                Case::new(args, function!(|x| x[0].matmul(x[1])), |x| {
                    product(&x[0], &x[1])
                })
            },
        },
        Operation {
            name: "linear",
            draw: |d| {
                let (m, k, n) = (d.count(1, 4), d.count(2, 4), d.count(1, 4));
                let x = if d.flag() {
                    d.signed(&[m, k])
                } else {
                    d.signed(&[2, m, k])
                };
                Case::new(
                    vec![x, d.signed(&[n, k])],
                    function!(|x| x[0].linear(x[1])),
                    |x| product(&x[0], &swapped(&x[1], 0, 1)),
                )
            },
        },
        Operation {
            name: "add_bias",
            draw: |d| {
                let (m, n) = (d.count(1, 4), d.count(1, 4));
                let args = vec![d.signed(&[m, n]), d.signed(&[n])];
                Case::new(args, function!(|x| x[0].add_bias(x[1])), |x| {
                    (&x[0] + &x[1]).into_shared()
                })
            },
        },
    ]
}
