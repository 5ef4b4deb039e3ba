//! The monitor of the laws.

use super::observers::{Diary, descent};
use super::*;
use emmy::symmetry::Side;
use emmy::train::{LawMonitor, Worst};

/// The relative δ and the size of each neuron of a first layer of two heads of four, from the names of the parameters alone: ⟨W[r,:], G⟩ + Σ b_r G − a_r G
/// − ⟨W⁺[:,r], G⟩ by the sum of its terms, with or without the attention.
fn by_hand(names: &[String], page: &super::observers::Page, attention: bool) -> Vec<(f64, f64)> {
    let find = |name: &str| names.iter().position(|n| n == name).expect("a parameter");
    let products = |name: &str| {
        let k = find(name);
        &page.parameters[k] * &page.gradients[k]
    };
    let w = products("layers.0.source.weight");
    let biases = ["layers.0.source.bias", "layers.0.bias"].map(products);
    let a = products("layers.0.att");
    let out = products("layers.1.source.weight");
    let neuron = |r: usize| {
        let mut terms: Vec<f64> = w.outer_iter().nth(r).unwrap().iter().copied().collect();
        terms.extend(biases.each_ref().map(|b| b[[r]]));
        if attention {
            terms.push(-a[[r / 4, r % 4]]);
        }
        terms.extend(out.outer_iter().map(|row| -row[r]));
        let size: f64 = terms.iter().map(|x| x.abs()).sum();
        let delta = terms.iter().sum::<f64>().abs();
        (if size == 0.0 { 0.0 } else { delta / size }, size)
    };
    (0..8).map(neuron).collect()
}

#[test]
fn the_monitor_finds_the_largest_delta() {
    for dropout in [0.0, 0.3] {
        let setting = setting(dropout);
        let mut trainer = setting.trainer(descent(12));
        let laws = setting.net().laws();
        // The same without the attention: laws that do not hold.
        let mut broken = laws.clone();
        for law in &mut broken {
            law.terms.retain(|term| term.side != Side::Attention);
        }
        let mut diary = Diary::default();
        let (mut whole, mut lame) = (LawMonitor::new(laws.clone()), LawMonitor::new(broken));
        setting
            .observe(&mut trainer, ((&mut whole, &mut lame), &mut diary))
            .unwrap();

        let names = &trainer.history().names;
        let worst = |attention: bool| {
            let mut worst = (0.0, 0, 0, 0.0);
            for page in &diary.epochs {
                let neurons = by_hand(names, page, attention);
                let largest = neurons.iter().fold(0.0, |m: f64, n| m.max(n.1));
                for (r, (delta, size)) in neurons.into_iter().enumerate() {
                    if delta > worst.0 {
                        worst = (delta, r, page.epoch, size / largest);
                    }
                }
            }
            worst
        };
        let (delta, r, epoch, share) = worst(false);
        let found = lame.worst().unwrap();
        approx::assert_relative_eq!(found.delta, delta, max_relative = 1e-9);
        assert_eq!((found.neuron, found.epoch), (r % 4, epoch), "{found:?}");
        approx::assert_relative_eq!(found.share.unwrap(), share, max_relative = 1e-9);
        assert!(share > 0.0 && share < 1.0, "{found:?}");
        assert_eq!(found.law, laws[r / 4].name);
        assert!(delta > 0.01 && (dropout == 0.0 || epoch > 1), "{found:?}");
        assert_eq!(lame.max_delta(), found.delta);
        assert!(whole.max_delta() < 1e-11 && worst(true).0 < 1e-11);
    }
}

/// Passes points on to another observer, with one entry of the gradients changed in one epoch.
struct Tampering<'a> {
    monitor: &'a mut LawMonitor,
    changes: Vec<(usize, [usize; 2], f64)>,
}

impl Observer<f64, Net> for Tampering<'_> {
    fn before_step(&mut self, point: &Point<'_, f64>) -> emmy::Result<()> {
        let mut gradients = point.gradients.to_vec();
        for &(epoch, at, value) in &self.changes {
            if epoch == point.epoch {
                gradients[0][at] = value;
            }
        }
        let point = Point {
            gradients: &gradients,
            ..*point
        };
        Observer::<f64, Net>::before_step(&mut self.monitor, &point)
    }
}

fn tampered(changes: Vec<(usize, [usize; 2], f64)>) -> Worst {
    let setting = setting(0.0);
    let net = setting.net();
    assert_eq!(net.parameters()[0].name, "layers.0.source.weight");
    let mut monitor = LawMonitor::new(net.laws());
    let tampering = Tampering {
        monitor: &mut monitor,
        changes,
    };
    setting
        .observe(&mut setting.trainer(descent(9)), tampering)
        .unwrap();
    monitor.worst().unwrap()
}

#[test]
fn a_broken_law_is_reported_with_its_neuron_and_epoch() {
    // Row 6 is neuron 2 of the second head.
    let worst = tampered(vec![(5, [6, 3], 0.1), (7, [1, 0], 1e-4)]);
    assert!(worst.delta > 1e-3, "{worst:?}");
    assert_eq!((worst.neuron, worst.epoch), (2, 5));
    assert_eq!(worst.law, "layer 1, head 2, neurons");
}

#[test]
fn what_is_not_a_number_is_the_worst_and_the_first_of_them_stays() {
    let changes = vec![
        (2, [0, 0], 1e3),
        (4, [3, 0], f64::NAN),
        (5, [7, 0], f64::NAN),
        (6, [0, 0], 1e6),
    ];
    let worst = tampered(changes);
    assert!(worst.delta.is_nan());
    assert_eq!((worst.neuron, worst.epoch), (3, 4));
    assert_eq!(worst.law, "layer 1, head 1, neurons");
}

#[test]
fn there_is_no_share_if_all_gradients_are_zero() {
    let net = setting(0.0).net();
    let zeros: Vec<_> = (net.tensors().iter().map(|x| x.mapv(|_| 0.0).into_shared())).collect();
    let point = Point {
        epoch: 1,
        step: 1,
        loss: 0.0,
        lr: 0.1,
        parameters: &net.tensors(),
        gradients: &zeros,
    };
    let mut monitor = LawMonitor::new(net.laws());
    Observer::<f64, Net>::before_step(&mut monitor, &point).unwrap();
    let worst = monitor.worst().unwrap();
    assert_eq!((worst.delta, worst.share), (0.0, None));
}

#[test]
fn without_laws_nothing_is_found() {
    let setting = setting(0.0);
    let net = setting.net();
    let mut monitor = LawMonitor::new(Vec::new());
    setting
        .observe(&mut setting.trainer(descent(3)), &mut monitor)
        .unwrap();
    assert_eq!((monitor.worst(), monitor.max_delta()), (None, 0.0));
    assert_eq!(LawMonitor::new(net.laws()).worst(), None);
}
