//! Observers see the points at which steps begin, change nothing, and may end the training.

use super::*;
use emmy::train::{LawMonitor, Recorder, each_epoch};
use std::cell::RefCell;

/// The points that an observer has seen.
#[derive(Default)]
pub struct Diary {
    pub epochs: Vec<Page>,
}

#[derive(PartialEq, Debug, Clone)]
pub struct Page {
    pub epoch: usize,
    pub step: usize,
    pub loss: f64,
    pub lr: f64,
    pub parameters: Vec<Tensor<f64>>,
    pub gradients: Vec<Tensor<f64>>,
}

impl Page {
    pub fn tensors(&self) -> Vec<&Tensor<f64>> {
        self.parameters.iter().collect()
    }
}

impl<M> Observer<f64, M> for Diary {
    fn before_step(&mut self, point: &Point<'_, f64>) -> emmy::Result<()> {
        self.epochs.push(Page {
            epoch: point.epoch,
            step: point.step,
            loss: point.loss,
            lr: point.lr,
            parameters: point.parameters.iter().copied().cloned().collect(),
            gradients: point.gradients.to_vec(),
        });
        Ok(())
    }
}

/// Plain descent with all options that change the learning rate and the parameters.
pub fn descent(epochs: usize) -> TrainConfig {
    TrainConfig {
        algorithm: Algorithm::SGD,
        lr: 0.3,
        weight_decay: 0.02,
        schedule: Decay::Step {
            every: 3,
            gamma: 0.5,
        }
        .into(),
        epochs,
        ..TrainConfig::default()
    }
}

#[test]
fn a_point_is_that_of_the_step() {
    let setting = setting(0.0);
    let (mut diary, mut trainer) = (Diary::default(), setting.trainer(descent(8)));
    setting.observe(&mut trainer, &mut diary).unwrap();
    assert_eq!(diary.epochs.len(), 8);
    let mut net = setting.net();
    for (page, record) in diary.epochs.iter().zip(&trainer.history().steps) {
        let at = (record.epoch, record.step, record.loss, record.lr);
        assert_eq!((page.epoch, page.step, page.loss, page.lr), at);
        // The parameters are those that the steps before led to, and loss and gradient are of these parameters.
        assert_eq!(page.parameters, parameters(&net));
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, 99);
        let logits = setting.forward(&net, &pass);
        let loss = logits.cross_entropy(&setting.set.labels, Some(&setting.set.splits[0].train));
        assert_eq!(page.loss, loss.item());
        assert_eq!(page.gradients, pass.gradients(loss));
        for (p, g) in net.tensors_mut().into_iter().zip(&page.gradients) {
            *p = (&*p - (g + &*p * 0.02) * page.lr).into_shared();
        }
        // The steps themselves round as they do.
        for (p, next) in net
            .tensors_mut()
            .into_iter()
            .zip(next(&diary, page, &trainer))
        {
            approx::assert_abs_diff_eq!(*p, next, epsilon = 1e-14);
            *p = next;
        }
    }
}

/// The parameters after the step from `page`.
fn next(diary: &Diary, page: &Page, trainer: &Trainer<f64, Net>) -> Vec<Tensor<f64>> {
    let next = diary.epochs.get(page.epoch);
    next.map_or_else(|| parameters(trainer.model()), |p| p.parameters.clone())
}

#[test]
fn observers_change_no_bit() {
    for (dropout, algorithm) in [
        (0.0, Algorithm::SGD),
        (0.0, Algorithm::ADAM),
        (0.4, Algorithm::ADAM),
    ] {
        let setting = setting(dropout);
        let config = TrainConfig {
            algorithm,
            ..descent(15)
        };
        let whole = setting.fit(config.clone());
        let net = setting.net();
        let monitor = LawMonitor::new(net.laws());
        let recorder = Recorder::new(&net, net.laws(), 1);
        let mut trainer = setting.trainer(config);
        let observers = ((monitor, recorder), Diary::default());
        setting.observe(&mut trainer, observers).unwrap();
        assert_eq!(bits(trainer.model()), bits(whole.model()));
        assert_eq!(bits(&trainer.best_model()), bits(&whole.best_model()));
        assert_eq!(untimed(&trainer), untimed(&whole));
    }
}

/// Records its calls, and returns an error at a given call.
struct Teller<'a> {
    name: &'static str,
    told: &'a RefCell<Vec<String>>,
    refuses: Option<&'static str>,
}

impl Teller<'_> {
    fn tell(&self, what: String) -> emmy::Result<()> {
        let refused = self.refuses == Some(what.as_str());
        self.told.borrow_mut().push(format!("{} {what}", self.name));
        match refused {
            true => Err(emmy::Error::invalid("teller", "nothing", self.name)),
            false => Ok(()),
        }
    }
}

impl Observer<f64, Net> for Teller<'_> {
    fn before_step(&mut self, point: &Point<'_, f64>) -> emmy::Result<()> {
        self.tell(format!("before {}", point.epoch))
    }

    fn after_epoch(&mut self, trainer: &Trainer<f64, Net>, record: &Record) -> emmy::Result<()> {
        assert_eq!(trainer.history().last(), Some(record));
        self.tell(format!("after {}", record.epoch))
    }
}

#[test]
fn a_pair_calls_both_in_order() {
    for dropout in [0.0, 0.4] {
        let setting = setting(dropout);
        let told = RefCell::new(Vec::new());
        let teller = |name| Teller {
            name,
            told: &told,
            refuses: None,
        };
        let (mut a, b) = (teller("a"), teller("b"));
        let c = each_epoch(|_, record| {
            told.borrow_mut().push(format!("c after {}", record.epoch));
            Ok(())
        });
        let mut trainer = setting.trainer(descent(2));
        setting.observe(&mut trainer, (&mut a, (b, c))).unwrap();
        let expected = [
            "a before 1",
            "b before 1",
            "a after 1",
            "b after 1",
            "c after 1",
            "a before 2",
            "b before 2",
            "a after 2",
            "b after 2",
            "c after 2",
        ];
        assert_eq!(*told.borrow(), expected);
    }
}

#[test]
fn an_error_ends_the_training_where_it_is_said() {
    for dropout in [0.0, 0.4] {
        let setting = setting(dropout);
        let whole = setting.fit(descent(6));
        for (refuses, last_told, epochs) in
            [("before 4", "a before 4", 3), ("after 4", "a after 4", 4)]
        {
            let told = RefCell::new(Vec::new());
            let teller = |name, refuses| Teller {
                name,
                told: &told,
                refuses,
            };
            let mut trainer = setting.trainer(descent(6));
            let pair = (teller("a", Some(refuses)), teller("b", None));
            let error = setting.observe(&mut trainer, pair).unwrap_err();
            assert!(error.to_string().contains("found a"), "{error}");
            // The second observer is not called any more.
            assert_eq!(told.borrow().last().unwrap(), last_told);
            assert_eq!(trainer.history().epochs(), epochs);
            let until = setting.fit(descent(epochs));
            assert_eq!(bits(trainer.model()), bits(until.model()));
            // The training can be continued.
            setting.observe(&mut trainer, ()).unwrap();
            assert_eq!(bits(trainer.model()), bits(whole.model()));
        }
    }
}

#[test]
fn an_observer_is_optional() {
    let setting = setting(0.0);
    let (mut some, mut none) = (Some(Diary::default()), None::<Diary>);
    let mut trainer = Trainer::new(setting.net(), descent(3)).unwrap();
    setting
        .observe(&mut trainer, (&mut some, &mut none))
        .unwrap();
    assert_eq!(some.unwrap().epochs.len(), 3);
}
