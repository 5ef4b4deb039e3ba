//! Positions of values along an axis, and its ticks.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::Ranged;
use std::ops::Range;

/// One axis.
#[derive(Debug, Clone)]
pub struct Axis {
    pub label: String,
    /// The limits of the axis; `None` to fit the data.
    pub range: Option<Range<f64>>,
    /// Whether powers of ten are equally far apart; values of 0 and below are then left out.
    pub log: bool,
    /// Names for the positions 0, 1, 2, …, used in place of numbers.
    pub names: Vec<String>,
}

/// The most ticks of an axis of numbers, about.
const TICKS: f64 = 8.0;

impl Axis {
    /// An axis of numbers that fits the data.
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            range: None,
            log: false,
            names: Vec::new(),
        }
    }

    /// The same axis with these limits.
    pub fn within(self, range: Range<f64>) -> Self {
        Self {
            range: Some(range),
            ..self
        }
    }

    /// The same axis in powers of ten.
    pub fn log(self) -> Self {
        Self { log: true, ..self }
    }

    /// The same axis with names for 0, 1, 2, …
    pub fn named(self, names: Vec<String>) -> Self {
        Self {
            range: Some(-0.5..names.len() as f64 - 0.5),
            names,
            ..self
        }
    }

    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = if self.log { value.log10() } else { value };
        place.is_finite().then_some(place)
    }

    pub(super) fn span(&self, values: impl Iterator<Item = f64>) -> Range<f64> {
        if let Some(Range { start, end }) = self.range.clone() {
            return self.place(start).unwrap_or(start)..self.place(end).unwrap_or(end);
        }
        let (low, high) = (values.filter_map(|v| self.place(v)))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            });
        if low > high {
            return 0.0..1.0;
        }
        let margin = match high - low {
            // A single value is in the middle of the axis.
            0.0 if high == 0.0 || self.log => 1.0,
            0.0 => 0.5 * high.abs(),
            width => (0.04 * width).max(1e-3 * high.abs()),
        };
        low - margin..high + margin
    }

    /// The scale of an axis that spans these places.
    pub(super) fn scale(&self, span: Range<f64>) -> Scale {
        let (ticks, step) = self.ticks(&span);
        Scale {
            line: span.into(),
            ticks,
            step,
        }
    }

    /// The places of the ticks within a span, and the distance between two: whole numbers if there are names,
    /// else round numbers.
    fn ticks(&self, span: &Range<f64>) -> (Vec<f64>, f64) {
        let width = span.end - span.start;
        let multiples = |step: f64| -> Vec<f64> {
            let first = (span.start / step - 1e-6).ceil() as i64;
            let last = (span.end / step + 1e-6).floor() as i64;
            (first..=last).map(|k| k as f64 * step).collect()
        };
        if !self.names.is_empty() {
            return (multiples(1.0), 1.0);
        }
        // Up to two and a half decades have ticks at 1, 2, 5, 10, 20, ..
        if self.log && width <= 2.5 {
            let first = span.start.floor() as i32;
            let decades = (first..=span.end.ceil() as i32)
                .flat_map(|k| [1.0, 2.0, 5.0].map(|m: f64| f64::from(k) + m.log10()));
            let inside = |place: &f64| (span.start - 1e-6..=span.end + 1e-6).contains(place);
            let ticks: Vec<f64> = decades.filter(inside).collect();
            if ticks.len() > 1 {
                return (ticks, 1.0);
            }
        }
        let power = 10f64.powf((width / TICKS).log10().floor());
        let wide = |m: &f64| m * power * TICKS >= width * (1.0 - 1e-9);
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(wide);
        let step = power * step.unwrap_or(10.0);
        // Between powers of ten, a part of a decade is no round number.
        let step = if self.log && width > 1.0 {
            step.max(1.0)
        } else {
            step
        };
        (multiples(step), step)
    }

    /// The text at a tick, where two ticks are `step` apart.
    pub(super) fn text(&self, place: f64, step: f64) -> String {
        if !self.names.is_empty() {
            let whole = (place > -0.5).then(|| self.names.get(place.round() as usize));
            return whole.flatten().cloned().unwrap_or_default();
        }
        // The power of ten of a number's first digit.
        let digit = |v: f64| (v.abs().log10() + 1e-9).floor() as i32;
        let value = match self.log {
            true => 10f64.powf(place),
            // Ticks are multiples of steps, so the tick at 0 may differ from 0 by a rounding error.
            false if place.abs() < 1e-6 * step => return "0".to_owned(),
            false => place,
        };
        // The ticks of powers of ten have one digit, or those that a step of less than a decade needs.
        let last = match self.log {
            true if step >= 1.0 => digit(value),
            true => digit(value) - 2,
            false => digit(step),
        };
        match (-3..5).contains(&digit(value)) && last > -4 {
            true => format!("{value:.*}", -last.min(0) as usize),
            false => format!("{value:.*e}", (digit(value) - last).max(0) as usize),
        }
    }
}

/// The places of an axis and its ticks, for plotters.
pub(super) struct Scale {
    line: RangedCoordf64,
    ticks: Vec<f64>,
    pub step: f64,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        self.line.map(place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.line.range()
    }
}
