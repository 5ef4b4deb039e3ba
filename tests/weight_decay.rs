//! Weight decay of chosen parameters.

use emmy::Tensor;
use emmy::optim::{Method, Optimizer};

#[test]
fn chosen_parameters_decay_as_if_all_did_and_the_others_as_if_none() {
    let momentum = Method::Sgd {
        momentum: 0.9,
        nesterov: false,
    };
    for method in [Method::SGD, momentum, Method::ADAM, Method::ADAMW] {
        let all = Optimizer::<f64>::new(method).weight_decay(0.3);
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
        let (with, without) = (run(all), run(Optimizer::new(method)));
        assert!((0..3).all(|k| with[k] != without[k]));
        let [a, _, c] = without;
        let [_, b, _] = with;
        assert_eq!(run(chosen), [a, b, c], "{method:?}");
    }
}

#[test]
#[should_panic(expected = "decay_only: 1 names, 2 parameters")]
fn names_chosen_for_decay_must_be_those_of_the_parameters() {
    let mut optimizer = Optimizer::<f64>::new(Method::SGD)
        .weight_decay(0.1)
        .decay_only(["weight"], |_| true);
    let (mut a, mut b) = (Tensor::zeros(vec![2]), Tensor::zeros(vec![3]));
    let gradients = [a.clone(), b.clone()];
    optimizer.step([&mut a, &mut b], &gradients, 0.1);
}
