//! Positions of values along an axis, and texts of ticks.

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
        let margin = (0.04 * (high - low)).max(1e-3 * high.abs()).max(1e-12);
        low - margin..high + margin
    }

    /// The text at a tick of an axis that spans `width`.
    pub(super) fn text(&self, place: f64, width: f64) -> String {
        if !self.names.is_empty() {
            let whole = (place - place.round()).abs() < 1e-6 && place > -0.5;
            let name = whole.then(|| self.names.get(place.round() as usize));
            return name.flatten().cloned().unwrap_or_default();
        }
        let value = match self.log {
            true => 10f64.powf(place),
            // Ticks are sums of steps, so the tick at 0 may differ from 0 by a rounding error.
            false if place.abs() < 1e-9 * width => 0.0,
            false => place,
        };
        match value.abs() {
            0.0 => "0".to_owned(),
            v if !(1e-3..1e5).contains(&v) => format!("{value:.0e}"),
            v if v >= 10.0 => format!("{value:.0}"),
            _ => format!("{value:.3}")
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
        }
    }
}
