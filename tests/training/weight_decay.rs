//! Weight decay of chosen parameters.

use emmy::Tensor;
use emmy::nn::{Linear, Module, Role};
use emmy::optim::{Algorithm, Optimizer, Sgd};

#[test]
fn chosen_parameters_decay_as_if_all_did_and_the_others_as_if_none() {
    let momentum = Algorithm::Sgd(Sgd {
        momentum: 0.9,
        nesterov: false,
    });
    for algorithm in [Algorithm::SGD, momentum, Algorithm::ADAM, Algorithm::ADAMW] {
        let all = Optimizer::<f64>::new(algorithm).weight_decay(0.3);
        let run = |mut optimizer: Optimizer<f64>| {
            let start = [vec![1.0, -2.0], vec![0.5], vec![3.0, 0.25]];
            let mut parameters = start.map(|p| emmy::tensor::tensor(&[p.len()], p));
            for step in 1..4 {
                let gradients = parameters
                    .clone()
                    .map(|p| p.mapv(|x| (x * f64::from(step)).sin()));
                let gradients = gradients.map(|g| g.into_shared());
                optimizer.step(&mut parameters, &gradients, 0.1);
            }
            parameters
        };
        let chosen = (all.clone()).decay_only(["a", "b", "c"], |name| name == "b");
        assert!(!chosen.same_rule(&all));
        let (with, without) = (run(all.clone()), run(Optimizer::new(algorithm)));
        assert!((0..3).all(|k| with[k] != without[k]));
        let [a, _, c] = without;
        let [_, b, _] = with;
        assert_eq!(run(chosen), [a, b.clone(), c.clone()], "{algorithm:?}");
        let half = run(all.clone().weight_decay(0.15));
        let each = all.clone().decay_each([0.15, 0.3, 0.0], |lambda| lambda);
        assert!(!each.same_rule(&all) && each.validate().is_ok());
        assert_eq!(run(each), [half[0].clone(), b, c], "{algorithm:?}");
        assert!(all.decay_each([f64::NAN], |x| x).validate().is_err());
    }
}

#[test]
fn a_choice_by_role_is_one_by_name() {
    let layer = Linear::<f64>::new(2, 3, true, &mut emmy::init::rng(0));
    let names: Vec<String> = layer.parameters().into_iter().map(|p| p.name).collect();
    let decay = || Optimizer::<f64>::new(Algorithm::SGD).weight_decay(0.1);
    let by_role = decay().decay_only(layer.parameters(), |p| p.role == Role::Weight);
    let by_name = decay().decay_only(&names, |name| name == "weight");
    assert!(by_role.same_rule(&by_name) && !by_role.same_rule(&decay()));
    assert!(!by_role.same_rule(&decay().decay_only(layer.parameters(), |p| p.role == Role::Bias)));
}

#[test]
#[should_panic(expected = "step: weight decay for 1 parameters, the gradients are of 2")]
fn a_choice_must_be_among_the_parameters_of_the_step() {
    let mut optimizer = Optimizer::<f64>::new(Algorithm::SGD)
        .weight_decay(0.1)
        .decay_only(["weight"], |_| true);
    let (mut a, mut b) = (Tensor::zeros(vec![2]), Tensor::zeros(vec![3]));
    let gradients = [a.clone(), b.clone()];
    optimizer.step([&mut a, &mut b], &gradients, 0.1);
}
