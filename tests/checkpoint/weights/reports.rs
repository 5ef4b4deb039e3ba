//! The description of a model in its file, and the reports on files that do not fit.

use super::*;
use crate::cases::proptest_cases;
use emmy::nn::{GraphNet, GraphNetConfig, Module, parameter_count};
use emmy::store::Place;
use emmy::store::weights::{self, Misshapen, Report, Weights};
use proptest::prelude::*;
use tempfile::TempDir;

/// A model and a file of another one.
struct Differing {
    same: Linear<f64>,
    wide: Tensor<f64>,
    old_name: Tensor<f64>,
    gone: Tensor<f64>,
}
emmy::module!(Differing for f64: same, wide, old_name as "encoder.layers.0.weight", gone);

struct Expected {
    same: Linear<f64>,
    wide: Tensor<f64>,
    new_name: Tensor<f64>,
    alone: Tensor<f64>,
}
emmy::module!(Expected for f64: same, wide, new_name as "encoder.layer.0.weight", alone as "a.b");

fn ones(shape: &[usize]) -> Tensor<f64> {
    Tensor::ones(shape.to_vec())
}

fn differing(path: &Path) -> Expected {
    let file = Differing {
        same: Linear::new(2, 3, true, &mut init::rng(0)),
        wide: ones(&[3, 5]),
        old_name: ones(&[4, 4]),
        gone: ones(&[7]),
    };
    weights::save(path, &file, &()).unwrap();
    Expected {
        same: Linear::new(2, 3, true, &mut init::rng(1)),
        wide: ones(&[5, 3]),
        new_name: ones(&[4, 4]),
        alone: ones(&[2]),
    }
}

#[test]
fn one_report_names_all_that_does_not_fit_and_nothing_is_changed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("other.safetensors");
    let mut model = differing(&path);
    let before: Vec<_> = model.tensors().into_iter().cloned().collect();
    let error = weights::load_into(&path, &mut model).unwrap_err();
    let message = error.to_string();
    let (place, lines) = message.split_once(": ").unwrap();
    assert!(place.ends_with("other.safetensors"));
    let expected = "expected the tensors of the model, of which 2 fit\n  \
        missing     encoder.layer.0.weight [4, 4]\n  \
        missing     a.b [2]\n  \
        unexpected  encoder.layers.0.weight [4, 4], is it encoder.layer.0.weight?\n  \
        unexpected  gone [7]\n  \
        shape       wide: expected [5, 3], found [3, 5]";
    assert_eq!(lines, expected);
    let after: Vec<_> = model.tensors().into_iter().cloned().collect();
    assert_eq!(after, before);
    let report = Report::of(&error).expect("that of `load_into`");
    assert_eq!(report.fitting, ["same.weight", "same.bias"]);
    assert!(!report.fits());

    let file = Weights::open(&path).unwrap();
    assert_eq!(file.compare(&model), *report);
    assert_eq!(file.load_matching(&mut model).unwrap(), *report);
    assert_eq!(model.same.weight, file.get::<f64>("same.weight").unwrap());
    assert_eq!(model.tensors()[2..], before[2..].iter().collect::<Vec<_>>());
}

#[test]
fn a_long_shape_is_cut() {
    let mut report = Report::default();
    report.misshapen.push(Misshapen {
        key: "weight".into(),
        expected: vec![2],
        found: vec![1; 100_000],
    });
    assert!(report.to_string().chars().count() < 1000, "{report}");
}

#[test]
fn a_long_report_is_cut_and_names_from_files_do_no_harm() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("long.safetensors");
    let shapes = vec![1; 40];
    struct Many {
        all: Vec<Tensor<f64>>,
    }
    emmy::module!(Many for f64: all);
    struct Escaping {
        bad: Tensor<f64>,
    }
    emmy::module!(Escaping for f64: bad as "\u{1b}[2J\nevil");
    weights::save(&path, &Escaping { bad: ones(&[1]) }, &()).unwrap();
    let mut many = Many {
        all: shapes.iter().map(|&n| ones(&[n])).collect(),
    };
    let message = weights::load_into(&path, &mut many)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("missing     all.19 [1]\n  missing     … and 20 more"),
        "{message}"
    );
    assert!(
        message.contains(r"unexpected  \u{1b}[2J\nevil [1]"),
        "{message}"
    );
    assert!(!message.contains(|c: char| c.is_control() && c != '\n'));
}

#[test]
fn numbers_that_are_not_finite_are_read_and_counted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("nan.safetensors");
    let mut model = mlp::<f64>(0);
    model.layers[0].weight[[1, 2]] = f64::NAN;
    model.layers[0].weight[[0, 0]] = f64::INFINITY;
    weights::save(&path, &model, &()).unwrap();
    let mut again = mlp::<f32>(1);
    let report = weights::load_into(&path, &mut again).unwrap();
    assert_eq!(report.not_finite, [("lins.0.weight".to_owned(), 2)]);
    assert!(
        report
            .to_string()
            .contains("not finite  lins.0.weight: 2 numbers are infinite or NaN")
    );
    assert!(again.layers[0].weight[[1, 2]].is_nan());
    assert_eq!(again.layers[0].weight[[0, 0]], f32::INFINITY);
}

#[test]
fn numbers_too_large_for_the_model_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("large.safetensors");
    let mut model = mlp::<f64>(0);
    model.layers[1].bias.as_mut().unwrap()[[0]] = -1e39;
    weights::save(&path, &model, &()).unwrap();
    let mut small = mlp::<f32>(1);
    let error = weights::load_into(&path, &mut small)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("overflow    lins.1.bias: 1 numbers are too large"),
        "{error}"
    );
    assert_eq!(small.tensors(), mlp::<f32>(1).tensors());
    let report = Weights::open(&path)
        .unwrap()
        .load_matching(&mut small)
        .unwrap();
    assert_eq!(report.overflowing, [("lins.1.bias".to_owned(), 1)]);
    assert_eq!(report.fitting.len(), 3);
    assert_eq!(small.layers[1].bias, mlp::<f32>(1).layers[1].bias);
    weights::load_into(&path, &mut mlp::<f64>(1)).unwrap();
    assert!(
        Weights::open(&path)
            .unwrap()
            .get::<f32>("lins.1.bias")
            .is_err()
    );
}

#[test]
fn a_file_rebuilds_its_model() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("gat.safetensors");
    let config = GraphNetConfig {
        dropout: 0.1 + 0.2,
        ..GraphNetConfig::gatv2(5, 3)
    };
    let net = GraphNet::<f64>::new(config, 7).unwrap();
    weights::save(&path, &net, &net.config).unwrap();
    let again = weights::load(&path, |config| GraphNet::<f64>::new(config, 1)).unwrap();
    assert_eq!(again.config, net.config);
    assert_eq!(again.tensors(), net.tensors());

    let file = Weights::open(&path).unwrap();
    assert_eq!(file.metadata("emmy"), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(
        (file.model(), file.metadata("format")),
        (Some("GraphNet"), Some("pt"))
    );
    assert_eq!(file.count(), parameter_count(&net) as u64);
    assert_eq!(file.dtype("convs.0.att").as_deref(), Some("F64"));
    assert_eq!(file.keys().next(), Some("convs.0.lin_l.weight"));

    // Files with a configuration of another type, of another form, and without one.
    let other = weights::load(&path, |_: GraphNetConfig| Ok(mlp::<f64>(0))).unwrap_err();
    let expected = "expected a Mlp, found GraphNet";
    assert!(other.to_string().ends_with(expected), "{other}");
    let form = file.config::<Vec<u8>>().unwrap_err().to_string();
    assert!(
        form.contains("expected JSON of the type alloc::vec::Vec<u8>, found invalid type: map"),
        "{form}"
    );
    weights::save(&path, &net, &()).unwrap();
    let none = weights::load(&path, |config| GraphNet::<f64>::new(config, 1)).unwrap_err();
    assert!(
        none.to_string()
            .contains("found none: load the file into a model"),
        "{none}"
    );
    // The same model gives the same bytes.
    let bytes = std::fs::read(&path).unwrap();
    weights::save(&path, &net, &()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[cfg(unix)]
#[test]
fn a_place_that_a_run_holds_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let mut place = Place::take(&path).unwrap();
    place.save::<f32>(&1_u8).unwrap();
    let error = weights::save(&path, &mlp::<f32>(0), &())
        .unwrap_err()
        .to_string();
    assert!(error.contains("another run saves to"), "{error}");
    // Also when the run has ended: a checkpoint is no file of weights.
    drop(place);
    let error = weights::save(&path, &mlp::<f32>(0), &()).unwrap_err();
    assert!(
        error.to_string().contains("a file of another kind"),
        "{error}"
    );
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    // Nor is a text that has a bracket where the header of weights begins.
    let text = folder.path().join("results");
    std::fs::write(&text, "{\"cell\":{\"task\":1}}\n").unwrap();
    let error = weights::save(&text, &mlp::<f32>(0), &()).unwrap_err();
    assert!(
        error.to_string().contains("a file of another kind"),
        "{error}"
    );
}

#[test]
fn integers_are_not_weights() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("integers.safetensors");
    let data = [0_u8; 16];
    let view =
        safetensors::tensor::TensorView::new(safetensors::Dtype::I64, vec![2], &data).unwrap();
    std::fs::write(
        &path,
        safetensors::serialize([("wide", view)], None).unwrap(),
    )
    .unwrap();
    struct One {
        wide: Tensor<f64>,
    }
    emmy::module!(One for f64: wide);
    let error = weights::load_into(&path, &mut One { wide: ones(&[2]) })
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("type        wide: expected F64, F32, F16 or BF16, found I64"),
        "{error}"
    );
    assert!(Weights::open(&path).unwrap().get::<f64>("wide").is_err());
}

fn round_trip<F: Real, G: Real>(numbers: &[F]) -> (Vec<G>, Report) {
    struct One<F: Real> {
        values: Tensor<F>,
    }
    emmy::module!(One: values);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.safetensors");
    let len = numbers.len();
    let values = emmy::tensor::tensor(&[len], numbers.to_vec());
    weights::save(&path, &One { values }, &()).unwrap();
    let mut found = One::<G> {
        values: Tensor::ones(vec![len]),
    };
    let report = Weights::open(&path).unwrap().load_into(&mut found).unwrap();
    (found.values.iter().copied().collect(), report)
}

proptest! {
    #![proptest_config(proptest_cases(120))]

    #[test]
    fn numbers_come_back_and_are_rounded_once(
        bits in prop::collection::vec(any::<u64>(), 0..20),
        singles in prop::collection::vec(any::<f32>(), 0..20),
    ) {
        let doubles: Vec<_> = bits.iter().map(|&b| f64::from_bits(b)).filter(|x| !x.is_nan()).collect();
        let same = round_trip::<f64, f64>(&doubles).0;
        prop_assert!(same.iter().zip(&doubles).all(|(a, b)| a.to_bits() == b.to_bits()));
        let (wide, _) = round_trip::<f32, f64>(&singles);
        let (back, _) = round_trip::<f64, f32>(&wide);
        prop_assert!(back.iter().zip(&singles).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan()));
        let near: Vec<_> = doubles.into_iter().filter(|x| x.abs() < 1e38).collect();
        let (rounded, _) = round_trip::<f64, f32>(&near);
        prop_assert!(rounded.iter().zip(&near).all(|(a, &b)| a.to_bits() == (b as f32).to_bits()));
    }

    /// Numbers of a configuration are written in decimals that are read as the same numbers.
    #[test]
    fn configurations_come_back_bit_for_bit(x in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.safetensors");
        weights::save(&path, &mlp::<f32>(0), &vec![x]).unwrap();
        let found: Vec<f64> = Weights::open(&path).unwrap().config().unwrap();
        prop_assert_eq!(found[0].to_bits(), x.to_bits());
    }
}
