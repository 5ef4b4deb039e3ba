//! Draws programs: operations of the library in any order, with operands of any origin.
#![allow(dead_code, reason = "each test program uses the part it needs")]

mod families;
#[path = "../operations/registry/sampler.rs"]
mod sampler;

use emmy::sparse::Pattern;
use emmy::tensor::{Tensor, tensor};
use emmy::{Tape, Var};
use sampler::Sampler;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub type V<'t> = Var<'t, f64>;

/// Values of at most so many entries are kept.
const MOST: usize = 64;

/// The source of operands of the registry of operations, with other shapes and with numbers of any size.
pub struct Draw(Sampler);

impl Deref for Draw {
    type Target = Sampler;

    fn deref(&self) -> &Sampler {
        &self.0
    }
}

impl DerefMut for Draw {
    fn deref_mut(&mut self) -> &mut Sampler {
        &mut self.0
    }
}

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(Sampler::new(seed))
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        self.uniform(&[], 0.0, 1.0)
            .first()
            .copied()
            .expect("a number")
    }

    /// From −1 to 1.
    pub fn signed(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }

    /// Numbers of a size that is drawn once; sometimes equal ones, or −1, 0 and 1 times this size.
    pub fn numbers(&mut self, shape: &[usize]) -> Tensor<f64> {
        let size = [0.1, 1.0, 1.0, 3.0, 10.0][self.count(0, 4)];
        let kind = self.count(0, 5);
        let number = |_| match kind {
            0 => size * [-1.0, 0.0, 1.0][self.count(0, 2)],
            1 => size,
            _ => size * self.signed(),
        };
        let len = shape.iter().product();
        tensor(shape, (0..len).map(number).collect())
    }

    /// One to three axes of up to three.
    pub fn shape(&mut self) -> Vec<usize> {
        let ndim = self.count(1, 3);
        (0..ndim).map(|_| self.count(1, 3)).collect()
    }

    pub fn axes(&mut self, ndim: usize) -> Vec<isize> {
        (0..ndim as isize).filter(|_| self.flag()).collect()
    }

    pub fn pattern(&mut self, rows: usize, columns: usize) -> Arc<Pattern> {
        let density = self.count(3, 10);
        let all = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
        let chosen: Vec<_> = all.filter(|_| self.count(0, 9) < density).collect();
        Pattern::from_pairs(rows, columns, &chosen).expect("pairs within the sizes")
    }

    pub fn mask(&mut self, shape: &[usize]) -> Tensor<bool> {
        let len = shape.iter().product();
        tensor(shape, (0..len).map(|_| self.count(0, 3) > 0).collect())
    }

    /// A shape of so many elements.
    pub fn factors(&mut self, mut len: usize) -> Vec<usize> {
        let mut shape = Vec::new();
        for _ in 0..self.count(0, 2) {
            let divisors: Vec<usize> = (1..=len).filter(|k| len.is_multiple_of(*k)).collect();
            let size = divisors[self.count(0, divisors.len() - 1)];
            shape.push(size);
            len /= size;
        }
        let at = self.count(0, shape.len());
        shape.insert(at, len);
        shape
    }
}

/// The values so far, from the input on.
pub struct Machine<'t> {
    tape: &'t Tape<f64>,
    pub d: Draw,
    pool: Vec<V<'t>>,
    /// What was done, for messages.
    pub done: Vec<String>,
}

impl<'t> Machine<'t> {
    /// The next choices follow from the seed.
    pub fn new(input: V<'t>, seed: u64) -> Self {
        Self {
            tape: input.tape(),
            d: Draw::new(seed),
            pool: vec![input],
            done: Vec::new(),
        }
    }

    pub fn last(&self) -> V<'t> {
        *self.pool.last().expect("the input")
    }

    /// A value, one of the latest more often than others.
    pub fn any(&mut self) -> V<'t> {
        let last = self.pool.len() - 1;
        match self.d.count(0, 2) {
            0 => self.pool[self.d.count(0, last)],
            _ => self.pool[last],
        }
    }

    /// A variable or a constant.
    fn parameter(&mut self, shape: &[usize]) -> V<'t> {
        let numbers = self.d.numbers(shape);
        match self.d.flag() {
            true => self.tape.var(numbers),
            false => self.tape.constant(numbers),
        }
    }

    /// An operand of this shape: a value that can be given this shape, a linear map of a value, or a
    /// parameter.
    pub fn operand(&mut self, shape: &[usize]) -> V<'t> {
        let len: usize = shape.iter().product();
        let fitting = |x: &V<'t>| x.len() == len;
        let fitting: Vec<V<'t>> = self.pool.iter().copied().filter(fitting).collect();
        if !fitting.is_empty() && self.d.count(0, 2) > 0 {
            let x = fitting[self.d.count(0, fitting.len() - 1)];
            return if x.shape() == shape {
                x
            } else {
                x.reshape(shape)
            };
        }
        if self.d.flag() {
            return self.parameter(shape);
        }
        let x = self.any();
        let map = self.parameter(&[len, x.len()]);
        x.reshape(&[1, x.len()]).linear(map).reshape(shape)
    }

    /// An operand that broadcasts to this shape.
    pub fn broadcast(&mut self, shape: &[usize]) -> V<'t> {
        let skipped = match self.d.count(0, 2) {
            0 => self.d.count(0, shape.len()),
            _ => 0,
        };
        let size = |&size: &usize| if self.d.count(0, 2) == 0 { 1 } else { size };
        let narrower: Vec<usize> = shape[skipped..].iter().map(size).collect();
        self.operand(&narrower)
    }

    /// Keeps what was made, if it has entries and not too many.
    pub fn keep(&mut self, made: Option<(String, V<'t>)>) {
        if let Some((name, y)) = made.filter(|(_, y)| (1..=MOST).contains(&y.len())) {
            self.done.push(format!("{name} → {:?}", y.shape()));
            self.pool.push(y);
        }
    }

    /// Takes so many steps. Not every operation fits every value, so some steps make nothing; there may be fewer.
    pub fn run(&mut self, steps: usize, mut step: impl FnMut(&mut Self)) {
        for _ in 0..4 * steps {
            if self.done.len() < steps {
                step(self);
            }
        }
    }

    /// An operation, if the one that is drawn fits.
    pub fn step(&mut self) {
        let x = self.any();
        let made = match self.d.count(0, 9) {
            0 => families::function(self, x),
            1 | 2 => families::arithmetic(self, x),
            3 => families::products(self, x),
            4 | 5 => families::shapes(self, x),
            6 => families::reductions(self, x),
            7 => families::rows(self, x),
            8 => families::sparse(self, x),
            _ => families::attention(self),
        };
        self.keep(made);
    }
}

/// A function of one tensor, drawn from a seed.
#[derive(Clone, Copy)]
pub struct Program {
    pub seed: u64,
    pub steps: usize,
}

impl Program {
    /// The shape of the input.
    pub fn shape(&self) -> Vec<usize> {
        Draw::new(self.seed).shape()
    }

    /// The last value, and what was done.
    pub fn run<'t>(&self, x: V<'t>) -> (V<'t>, Vec<String>) {
        let mut machine = Machine::new(x, !self.seed);
        machine.run(self.steps, Machine::step);
        (machine.last(), machine.done)
    }
}
