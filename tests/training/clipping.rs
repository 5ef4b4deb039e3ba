//! Clipping and weight decay in a training.

use super::*;
use emmy::nn::Role;

fn descent(config: TrainConfig) -> TrainConfig {
    TrainConfig {
        algorithm: Algorithm::SGD,
        lr: 0.5,
        epochs: 5,
        ..config
    }
}

type Tensors = Vec<Tensor<f64>>;

/// For each step of plain descent, the gradient and the step divided by η.
fn steps(config: TrainConfig) -> Vec<(Tensors, Tensors)> {
    let setting = setting(0.2);
    let mut diary = super::observers::Diary::default();
    let mut trainer = setting.trainer(config);
    setting.observe(&mut trainer, &mut diary).unwrap();
    let mut points: Vec<_> = diary.epochs.iter().map(|p| p.parameters.clone()).collect();
    points.push(parameters(trainer.model()));
    let moved = points.windows(2).map(|pair| {
        let both = pair[0].iter().zip(&pair[1]);
        both.map(|(a, b)| ((a - b) / 0.5).into_shared()).collect()
    });
    let gradients = diary.epochs.iter().map(|p| p.gradients.clone());
    gradients.zip(moved).collect()
}

fn norm(all: &[Tensor<f64>]) -> f64 {
    all.iter().flatten().map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn a_step_is_made_by_the_clipped_gradient_and_the_true_one_is_shown() {
    let clip = |clip| {
        steps(descent(TrainConfig {
            clip: Some(clip),
            ..TrainConfig::default()
        }))
    };
    let bound = 0.3;
    let mut clipped = 0;
    for (gradients, moved) in clip(Clip::GlobalNorm(bound)) {
        let factor = (bound / (norm(&gradients) + 1e-6)).min(1.0);
        clipped += usize::from(factor < 1.0);
        for (g, m) in gradients.iter().zip(&moved) {
            approx::assert_abs_diff_eq!(*m, (g * factor).into_shared(), epsilon = 1e-13);
        }
    }
    assert!(clipped > 0);
    let bound = 0.05;
    let mut clipped = 0;
    for (gradients, moved) in clip(Clip::Value(bound)) {
        for (g, m) in gradients.iter().zip(&moved) {
            clipped += g.iter().filter(|x| x.abs() > bound).count();
            let expected = g.mapv(|x| x.clamp(-bound, bound)).into_shared();
            approx::assert_abs_diff_eq!(*m, expected, epsilon = 1e-13);
        }
    }
    assert!(clipped > 0);
}

#[test]
fn records_have_the_norms_before_clipping() {
    let setting = setting(0.0);
    let norms = |clip| {
        let trainer = setting.fit(descent(TrainConfig {
            clip,
            ..TrainConfig::default()
        }));
        trainer.history().steps[0].gradient_norms.clone()
    };
    assert_eq!(norms(Some(Clip::GlobalNorm(1e-3))), norms(None));
}

/// The decay of a path applies to the whole part at this path, and not to a name that only begins in the same
/// way. Roles come first.
#[test]
fn decay_can_differ_by_paths() {
    let paths = |paths: &[(&str, f64)]| -> Vec<(String, f64)> {
        let owned = |&(path, lambda): &(&str, f64)| (path.to_owned(), lambda);
        paths.iter().map(owned).collect()
    };
    let config = |decay_paths, decay_roles| TrainConfig {
        weight_decay: 0.25,
        decay_paths,
        decay_roles,
        ..TrainConfig::default()
    };
    let net = setting(0.2).net();
    let names: Vec<_> = net.parameters().into_iter().map(|p| p.name).collect();
    let by = |lambda: &dyn Fn(&str) -> f64| {
        let optimizer = Optimizer::<f64>::new(Algorithm::ADAM).weight_decay(0.25);
        optimizer.decay_each(&names, |name| lambda(name))
    };
    let last = |name: &str| name.starts_with("layers.1.");
    let expected = by(&|name| {
        if name == "layers.1.att" {
            0.5
        } else if last(name) {
            0.125
        } else {
            0.25
        }
    });
    let some = paths(&[("layers.1.att", 0.5), ("layers.1", 0.125)]);
    assert!(
        config(some.clone(), None)
            .optimizer(&net)
            .same_rule(&expected)
    );
    let expected = by(&|name| {
        if name.ends_with("bias") && last(name) {
            0.125
        } else if name.ends_with("bias") {
            0.25
        } else {
            0.0
        }
    });
    let found = config(some.clone(), Some(vec![Role::Bias])).optimizer(&net);
    assert!(found.same_rule(&expected));
    for wrong in ["layers.1.at", "layer", "", "layers.1."] {
        let error = config(paths(&[(wrong, 0.1)]), None)
            .validate_for(&net)
            .unwrap_err();
        assert!(
            error.to_string().contains("such as layers.0.source.weight"),
            "{error}"
        );
    }
    assert!(config(some, None).validate_for(&net).is_ok());
    assert!(config(paths(&[("layers", -1.0)]), None).validate().is_err());
}

#[test]
fn decay_can_be_left_to_roles() {
    let decayed = |decay_roles: Option<Vec<Role>>| -> Vec<String> {
        let config = descent(TrainConfig {
            weight_decay: 0.25,
            decay_roles,
            ..TrainConfig::default()
        });
        let (gradients, moved) = &steps(config)[1];
        let net = setting(0.2).net();
        let names = net.parameters().into_iter().map(|p| p.name);
        let by_more = |(_, (g, m)): &(String, (&Tensor<f64>, &Tensor<f64>))| {
            (*g - *m).iter().any(|d| d.abs() > 1e-9)
        };
        let all = names.zip(gradients.iter().zip(moved)).filter(by_more);
        all.map(|(name, _)| name).collect()
    };
    let net = setting(0.2).net();
    let with = |roles: &[Role]| -> Vec<String> {
        let parameters = net.parameters().into_iter();
        let chosen = parameters.filter(|p| roles.contains(&p.role));
        chosen.map(|p| p.name).collect()
    };
    for roles in [
        vec![Role::Weight],
        vec![Role::Weight, Role::Attention],
        vec![Role::Bias],
        vec![],
    ] {
        assert_eq!(decayed(Some(roles.clone())), with(&roles), "{roles:?}");
    }
    assert_eq!(decayed(None).len(), net.parameters().len());
    assert!(!with(&[Role::Attention]).is_empty() && !with(&[Role::Bias]).is_empty());
}
