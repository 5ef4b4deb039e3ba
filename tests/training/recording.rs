//! The recorder: which values are sampled, at which epochs, and whether they are right.

use super::observers::{Diary, Page, descent};
use super::*;
use emmy::nn::Role;
use emmy::store;
use emmy::train::{Norms, Recorder, Recording, Sample};

/// Plain descent, recorded every `every` epochs and written down in full.
fn recorded(setting: &Setting, net: Net, every: usize) -> (Recording, Vec<Page>) {
    let mut recorder = Recorder::new(&net, net.laws(), every);
    let mut diary = Diary::default();
    let mut trainer = Trainer::new(net, descent(11)).unwrap();
    setting
        .observe(&mut trainer, (&mut recorder, &mut diary))
        .unwrap();
    (recorder.recording().clone(), diary.epochs)
}

#[test]
fn the_first_epoch_and_every_kth_are_sampled() {
    let setting = setting(0.2);
    for (every, expected) in [
        (4, vec![1, 4, 8]),
        (11, vec![1, 11]),
        (100, vec![1]),
        (1, (1..=11).collect()),
    ] {
        let (recording, _) = recorded(&setting, setting.net(), every);
        let epochs: Vec<usize> = recording.samples.iter().map(|s| s.epoch).collect();
        assert_eq!(epochs, expected);
        assert!(recording.samples.iter().all(|s| s.step == s.epoch));
    }
}

#[test]
#[should_panic(expected = "recorder: a sample every 0 epochs")]
fn a_sample_every_0_epochs_is_refused() {
    let net = setting(0.0).net();
    let _ = Recorder::new(&net, net.laws(), 0);
}

/// The norm of all entries, and the norms along the first axis or of every entry.
fn norms(x: &Tensor<f64>, entries: bool) -> Norms {
    let norm = |x: &mut dyn Iterator<Item = &f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    Norms {
        whole: norm(&mut x.iter()),
        neurons: match entries {
            true => x.iter().map(|x| x.abs()).collect(),
            false => x.outer_iter().map(|row| norm(&mut row.iter())).collect(),
        },
    }
}

fn close(found: &Norms, expected: &Norms) {
    approx::assert_relative_eq!(found.whole, expected.whole, max_relative = 1e-12);
    approx::assert_relative_eq!(
        found.neurons[..],
        expected.neurons[..],
        max_relative = 1e-12
    );
}

#[test]
fn a_sample_is_what_it_says() {
    let setting = setting(0.2);
    let net = setting.net();
    let laws = net.laws();
    let (recording, pages) = recorded(&setting, net.clone(), 5);
    assert!(laws.iter().map(|law| &law.name).eq(&recording.laws));
    let names: Vec<String> = net.parameters().into_iter().map(|p| p.name).collect();
    assert_eq!(recording.parameters, names);
    for sample in &recording.samples {
        let page = &pages[sample.epoch - 1];
        assert_eq!((sample.epoch, sample.loss), (page.epoch, page.loss));
        assert_eq!(sample.delta.len(), laws.len());
        for (k, law) in laws.iter().enumerate() {
            let measured = law.measure(&page.tensors(), &page.gradients);
            assert_eq!(sample.delta[k], measured.relative());
            assert_eq!(sample.delta_absolute[k], measured.delta);
            assert_eq!(
                Some(&sample.balance[k]),
                law.balance(&page.tensors()).as_ref()
            );
        }
        for (k, theta) in page.parameters.iter().enumerate() {
            let (gradient, initial) = (&page.gradients[k], &pages[0].parameters[k]);
            // Each entry weighs a neuron; in the last layer, which has no law, they are by heads.
            let norms = |x: &Tensor<f64>| norms(x, names[k] == "layers.0.att");
            close(&sample.norm[k], &norms(theta));
            close(&sample.gradient[k], &norms(gradient));
            close(&sample.change[k], &norms(&(theta - initial).into_shared()));
            let relative = sample.relative_gradient(k);
            let expected = norms(gradient).whole / norms(theta).whole;
            if expected.is_finite() {
                approx::assert_relative_eq!(relative.whole, expected, max_relative = 1e-12);
            }
        }
    }
    let moved = |s: &Sample| s.change.iter().map(|c| c.whole).fold(0.0, f64::max);
    let [first, .., last] = &recording.samples[..] else {
        panic!()
    };
    assert!(moved(first) == 0.0 && moved(last) > 0.1);
    assert_eq!(first.change[0].over(&first.norm[0]).whole, 0.0);
    let weight = |p: &Page| p.parameters[0].clone();
    let moved = &weight(&pages[last.epoch - 1]) - &weight(&pages[0]);
    let whole = moved.iter().map(|d| d * d).sum::<f64>().sqrt();
    approx::assert_relative_eq!(last.change[0].whole, whole, max_relative = 1e-12);
}

#[test]
fn an_attention_that_begins_with_0_has_no_relative_gradient_there() {
    let setting = setting(0.0);
    let mut net = setting.net();
    let at = |name: &str| {
        (net.parameters().iter())
            .position(|p| p.name == name)
            .unwrap()
    };
    let (a, bias) = (at("layers.0.att"), at("layers.1.bias"));
    net.tensors_mut()[a].fill(0.0);
    let (recording, _) = recorded(&setting, net, 5);
    let [first, second, ..] = &recording.samples[..] else {
        panic!()
    };
    assert!(first.gradient[a].whole > 0.0 && first.norm[a].whole == 0.0);
    assert_eq!(first.relative_gradient(a).whole, f64::INFINITY);
    assert!(second.relative_gradient(a).whole.is_finite());
    // A bias starts at 0, too. The relative change of such a parameter is 1.
    for k in [a, bias] {
        assert_eq!(first.change[k].over(&first.norm[k]).whole, 0.0);
        approx::assert_relative_eq!(second.change[k].over(&second.norm[k]).whole, 1.0);
    }
    let nothing = Norms::default();
    assert_eq!(nothing.over(&nothing).whole, 0.0);
}

#[test]
fn the_recorded_balance_drifts_as_the_law_says() {
    let setting = setting(0.2);
    let laws = setting.net().laws();
    let (recording, pages) = recorded(&setting, setting.net(), 1);
    let mut largest = 0.0_f64;
    for (pair, page) in recording.samples.windows(2).zip(&pages) {
        for (k, law) in laws.iter().enumerate() {
            let (c, next) = (&pair[0].balance[k], &pair[1].balance[k]);
            let drift = law.drift(c, &page.gradients, page.lr, 0.02).unwrap();
            approx::assert_abs_diff_eq!(next[..], drift[..], epsilon = 1e-13);
            let steps = c.iter().zip(next).map(|(a, b)| (a - b).abs());
            largest = steps.fold(largest, f64::max);
        }
    }
    // It does move.
    assert!(largest > 1e-3, "{largest}");
}

#[test]
fn a_recording_is_kept_and_read_again() {
    let setting = setting(0.0);
    let (recording, _) = recorded(&setting, setting.net(), 4);
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("recording");
    store::save::<f64>(&path, &recording).unwrap();
    assert_eq!(store::load::<f64, Recording>(&path).unwrap(), recording);
    let json: serde_json::Value =
        serde_json::from_str(&serde_json::to_string(&recording).unwrap()).unwrap();
    assert_eq!(json["samples"][1]["epoch"], 4);
    assert_eq!(json["laws"][1], "layer 1, head 2, neurons");
    assert_eq!(
        json["samples"][2]["balance"][1].as_array().unwrap().len(),
        4
    );
}

#[test]
fn a_recording_says_what_each_parameter_is_for() {
    let net = setting(0.0).net();
    let recording = Recorder::new(&net, net.laws(), 5).recording().clone();
    let roles: Vec<Role> = net.parameters().iter().map(|p| p.role).collect();
    assert_eq!(recording.roles, roles);
    let attention = recording
        .roles
        .iter()
        .filter(|role| **role == Role::Attention);
    assert_eq!(attention.count(), net.layers.len());
}
