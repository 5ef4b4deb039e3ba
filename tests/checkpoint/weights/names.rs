//! The names of a model in PyTorch, and the layout of its tensors there.

use super::*;
use emmy::nn::Module;
use emmy::store::weights::{self, Weights};
use tempfile::TempDir;

fn names(model: &impl Module<f64>) -> Vec<String> {
    weights::keys(model)
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

fn numbers(shape: &[usize]) -> Tensor<f64> {
    let count = shape.iter().product::<usize>();
    emmy::tensor::tensor(shape, (0..count).map(|k| k as f64).collect())
}

#[track_caller]
fn panics(model: &impl Module<f64>, why: &str) {
    let found = std::panic::AssertUnwindSafe(|| weights::keys(model));
    let panic = std::panic::catch_unwind(found).unwrap_err();
    let message = panic.downcast::<String>().unwrap();
    assert!(message.contains(why), "{message}");
}

#[test]
fn patterns_take_the_place_of_fields() {
    struct Leaf {
        gain: Tensor<f64>,
        b: Tensor<f64>,
    }
    emmy::module!(Leaf for f64: gain as "weight", b);
    struct Glued {
        inner: Leaf,
        second: Leaf,
    }
    emmy::module!(Glued for f64: inner as "*", second as "x_*");
    struct Net {
        net: Glued,
        a: Glued,
        blocks: Vec<Leaf>,
        map: Leaf,
    }
    emmy::module!(Net for f64: net as "*", a, blocks as "h#", map as "*1");
    let leaf = || Leaf {
        gain: numbers(&[1]),
        b: numbers(&[1]),
    };
    let glued = || Glued {
        inner: leaf(),
        second: leaf(),
    };
    let net = Net {
        net: glued(),
        a: glued(),
        blocks: vec![leaf(), leaf()],
        map: leaf(),
    };
    let glued = ["weight", "b", "x_weight", "x_b"];
    let inside = ["a.weight", "a.b", "a.x_weight", "a.x_b"];
    let blocks = ["h0.weight", "h0.b", "h1.weight", "h1.b"];
    let expected = [&glued[..], &inside, &blocks, &["weight1", "b1"]].concat();
    assert_eq!(names(&net), expected);
}

#[test]
fn maps_joined_in_one_tensor_are_its_rows_in_the_order_of_the_fields() {
    let attention = SelfAttention::<f64>::new(4, &mut init::rng(3));
    let expected = [
        "in_proj_weight",
        "in_proj_bias",
        "out_proj.weight",
        "out_proj.bias",
    ];
    assert_eq!(names(&attention), expected);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("attention.safetensors");
    weights::save(&path, &attention, &()).unwrap();
    let whole = Weights::open(&path)
        .unwrap()
        .get::<f64>("in_proj_weight")
        .unwrap();
    assert_eq!(whole.shape(), [12, 4]);
    let key = attention.key.as_ref().unwrap();
    for (k, map) in [&attention.query, key, &attention.value]
        .into_iter()
        .enumerate()
    {
        let rows = whole.slice(ndarray::s![4 * k..4 * k + 4, ..]).into_dyn();
        assert_eq!(rows, map.weight);
    }
    let mut again = SelfAttention::<f64>::new(4, &mut init::rng(4));
    weights::load_into(&path, &mut again).unwrap();
    assert_eq!(again.tensors(), attention.tensors());
}

/// Without keys of its own a layer has one map where PyTorch has two copies of it.
#[test]
fn one_tensor_may_be_two_in_pytorch_which_must_be_the_same() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("attention.safetensors");
    let mut attention = SelfAttention::<f64>::new(4, &mut init::rng(3));
    weights::save(&path, &attention, &()).unwrap();
    attention.key = None;
    assert_eq!(weights::keys(&attention)[0].1, [12, 4]);
    let before: Vec<_> = attention.tensors().into_iter().cloned().collect();
    let error = weights::load_into(&path, &mut attention).unwrap_err();
    let expected = "in_proj_weight and in_proj_weight: expected the same numbers";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(
        before,
        attention.tensors().into_iter().cloned().collect::<Vec<_>>()
    );

    weights::save(&path, &attention, &()).unwrap();
    let mut again = SelfAttention::<f64>::new(4, &mut init::rng(5));
    weights::load_into(&path, &mut again).unwrap();
    assert_eq!(again.key.unwrap().weight, attention.query.weight);
    let mut again = SelfAttention::<f64>::new(4, &mut init::rng(5));
    again.key = None;
    weights::load_into(&path, &mut again).unwrap();
    assert_eq!(again.tensors(), attention.tensors());
}

struct Tied {
    head: Option<Linear<f64>>,
    table: Linear<f64>,
}
emmy::module!(Tied for f64: head as "lm_head" else table, table as "embedding");

#[test]
fn of_two_names_for_one_tensor_one_is_enough() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tied.safetensors");
    let tied = |seed, tied: bool| {
        let mut map = || Linear::new(2, 3, false, &mut init::rng(seed));
        Tied {
            head: (!tied).then(&mut map),
            table: map(),
        }
    };
    assert_eq!(
        names(&tied(0, true)),
        ["lm_head.weight", "embedding.weight"]
    );
    assert_eq!(
        names(&tied(0, false)),
        ["lm_head.weight", "embedding.weight"]
    );
    struct Half {
        only: Linear<f64>,
    }
    emmy::module!(Half for f64: only as "lm_head");
    let half = Half {
        only: Linear::new(2, 3, false, &mut init::rng(9)),
    };
    weights::save(&path, &half, &()).unwrap();
    let mut model = tied(1, true);
    let report = weights::load_into(&path, &mut model).unwrap();
    assert_eq!(
        (report.fitting, model.table.weight),
        (vec!["lm_head.weight".into()], half.only.weight)
    );
    // A model with two tensors needs both.
    let error = weights::load_into(&path, &mut tied(1, false))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("missing     embedding.weight [3, 2]"),
        "{error}"
    );
    assert_eq!(tied(1, true).tensors().len(), 1);
}

struct Shared {
    source: (Tensor<f64>, Tensor<f64>),
    target: Option<(Tensor<f64>, Tensor<f64>)>,
}
emmy::module!(Shared for f64: source as "lin_l", target as "lin_r" else source);

/// Some of the tensors of two maps.
struct Maps {
    l: (Option<Tensor<f64>>, Option<Tensor<f64>>),
    r: (Option<Tensor<f64>>, Option<Tensor<f64>>),
}
emmy::module!(Maps for f64: l as "lin_l", r as "lin_r");

/// A second name is left out with its field, or not at all: half of a field is a file that lacks the rest.
#[test]
fn half_of_a_field_does_not_stand_for_the_other_half() {
    let all = ["lin_l.0", "lin_l.1", "lin_r.0", "lin_r.1"];
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("shared.safetensors");
    let load = |kept: &[usize]| {
        let part = |k: usize| kept.contains(&k).then(|| Tensor::ones(vec![2 + k % 2]));
        let maps = Maps {
            l: (part(0), part(1)),
            r: (part(2), part(3)),
        };
        weights::save(&path, &maps, &()).unwrap();
        let mut model = Shared {
            source: (Tensor::ones(vec![2]), Tensor::ones(vec![3])),
            target: None,
        };
        weights::load_into(&path, &mut model)
    };
    assert_eq!(load(&[0, 1, 2, 3]).unwrap().once, []);
    let pair = |k: usize, l: usize| (all[k].to_owned(), all[l].to_owned());
    assert_eq!(load(&[0, 1]).unwrap().once, [pair(2, 0), pair(3, 1)]);
    assert_eq!(load(&[2, 3]).unwrap().once, [pair(0, 2), pair(1, 3)]);
    for (kept, missing) in [
        (&[0, 1, 3][..], &[2][..]),
        (&[1, 2, 3], &[0]),
        (&[0, 3], &[1, 2]),
        (&[0], &[1, 2, 3]),
    ] {
        let error = load(kept).unwrap_err().to_string();
        let found = error.matches("missing ").count();
        assert_eq!(found, missing.len(), "{kept:?}: {error}");
        for &k in missing {
            assert!(
                error.contains(&format!("missing     {}", all[k])),
                "{error}"
            );
        }
    }
}

struct Laid {
    row: Tensor<f64>,
    turned: Tensor<f64>,
    moved: Tensor<f64>,
    stacked: Vec<Tensor<f64>>,
    messages: Vec<Linear<f64>>,
    scalar: Tensor<f64>,
}
emmy::module!(Laid for f64:
    row as "row" [_, 0, _],
    turned as "turned" [1, 0],
    moved as "moved" [2, _, 0, 1],
    stacked in "stacked" [_, 1, 0],
    messages in "*" [_, 1, 0],
    scalar as "scalar" [_],
);

/// Maps without biases, as the messages of a gated graph network.
fn maps(seed: u64) -> Vec<Linear<f64>> {
    let rng = &mut init::rng(seed);
    (0..3).map(|_| Linear::new(2, 2, false, rng)).collect()
}

#[test]
fn axes_are_those_of_pytorch_in_the_file_and_ours_in_the_model() {
    let model = Laid {
        row: numbers(&[3]),
        turned: numbers(&[2, 3]),
        moved: numbers(&[2, 3, 4]),
        stacked: vec![numbers(&[2, 3]), numbers(&[2, 3]) * -1.0],
        messages: maps(0),
        scalar: numbers(&[]),
    };
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("laid.safetensors");
    weights::save(&path, &model, &()).unwrap();
    let file = Weights::open(&path).unwrap();
    let get = |key| file.get::<f64>(key).unwrap();
    assert_eq!(get("row").shape(), [1, 3, 1]);
    assert_eq!(get("turned"), model.turned.t());
    assert_eq!(get("moved").shape(), [4, 1, 2, 3]);
    assert_eq!(get("moved")[[3, 0, 1, 2]], model.moved[[1, 2, 3]]);
    assert_eq!(get("stacked").shape(), [2, 3, 2]);
    assert_eq!(get("stacked")[[1, 2, 0]], model.stacked[1][[0, 2]]);
    assert_eq!(get("weight").shape(), [3, 2, 2]);
    assert_eq!(get("weight")[[2, 0, 1]], model.messages[2].weight[[1, 0]]);
    assert_eq!(get("scalar").shape(), [1]);
    let mut again = Laid {
        row: init::zeros(&[3]),
        turned: init::zeros(&[2, 3]),
        moved: init::zeros(&[2, 3, 4]),
        stacked: vec![init::zeros(&[2, 3]), init::zeros(&[2, 3])],
        messages: maps(1),
        scalar: Tensor::ones(vec![]),
    };
    file.load_into(&mut again).unwrap();
    assert_eq!(again.tensors(), model.tensors());
    assert!(again.tensors().iter().all(|t| t.is_standard_layout()));
}

/// PyTorch Geometric has `[1, H, C]` where a file of another program may have `[H, C]`.
#[test]
fn axes_of_size_one_do_not_matter_when_a_file_is_read() {
    struct Bare {
        att_src: Tensor<f64>,
    }
    emmy::module!(Bare for f64: att_src);
    struct Padded {
        score: Tensor<f64>,
    }
    emmy::module!(Padded for f64: score as "att_src" [_, 0, 1]);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bare.safetensors");
    weights::save(
        &path,
        &Bare {
            att_src: numbers(&[2, 3]),
        },
        &(),
    )
    .unwrap();
    let mut model = Padded {
        score: init::zeros(&[2, 3]),
    };
    weights::load_into(&path, &mut model).unwrap();
    assert_eq!(model.score, numbers(&[2, 3]));
    // Other axes do.
    let error = weights::load_into(
        &path,
        &mut Padded {
            score: init::zeros(&[3, 2]),
        },
    );
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("att_src: expected [1, 3, 2], found [2, 3]"),
        "{error}"
    );
}

#[test]
fn declarations_that_contradict_a_model_are_named() {
    struct Twice {
        a: Tensor<f64>,
        b: Tensor<f64>,
    }
    emmy::module!(Twice for f64: a as "w", b as "w");
    let why = "a and b are both called \"w\" in PyTorch";
    panics(
        &Twice {
            a: numbers(&[2]),
            b: numbers(&[2]),
        },
        why,
    );

    struct Joined {
        a: Tensor<f64>,
        b: Tensor<f64>,
    }
    emmy::module!(Joined for f64: a in "w", b in "w");
    let why = "a [2, 3] and b [2, 4], joined as \"w\": all axes but the first must be equal";
    panics(
        &Joined {
            a: numbers(&[2, 3]),
            b: numbers(&[2, 4]),
        },
        why,
    );

    struct Turned {
        a: Tensor<f64>,
    }
    emmy::module!(Turned for f64: a as "w" [1, 0]);
    let why = "a [2] has the axes [1, 0] in PyTorch: each of its own must be named once";
    panics(&Turned { a: numbers(&[2]) }, why);

    struct Numbered {
        a: Tensor<f64>,
    }
    emmy::module!(Numbered for f64: a as "w#");
    panics(
        &Numbered { a: numbers(&[2]) },
        "# for the place in a list, and a is no list",
    );
}
