//! Panels of curves, points, bars and boxes: the parts of a figure.

mod axis;
mod legend;
mod panel;

pub use axis::Axis;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;
use std::ops::Range;

/// Colours that colour-blind readers can tell apart (Paul Tol, "bright").
pub const COLOURS: [RGBColor; 8] = [
    RGBColor(0x44, 0x77, 0xaa),
    RGBColor(0xee, 0x66, 0x77),
    RGBColor(0x22, 0x88, 0x33),
    RGBColor(0xaa, 0x33, 0x77),
    RGBColor(0xcc, 0xbb, 0x44),
    RGBColor(0x66, 0xcc, 0xee),
    RGBColor(0x77, 0x77, 0x77),
    RGBColor(0x00, 0x00, 0x00),
];

/// The shape in which one series is drawn.
#[derive(Debug, Clone)]
pub enum Mark {
    /// (x, y)
    Line(Vec<(f64, f64)>),
    /// (x, y), dashed
    Dashes(Vec<(f64, f64)>),
    /// (x, from, to)
    Band(Vec<(f64, f64, f64)>),
    /// (x, y), each a dot
    Dots(Vec<(f64, f64)>),
    /// (x, y, half of the error bar), joined by a line
    Points(Vec<(f64, f64, f64)>),
    /// (x, from least to largest: whisker, box, median, box, whisker; mean)
    Boxes(Vec<(f64, [f64; 5], f64)>),
    /// (x, y) from 0, of this width
    Bars(Vec<(f64, f64)>, f64),
    /// The cells of a heat map, in the colours of a scale instead of the colour of the series
    Heat(Heat),
}

/// A heat map: cells of one size in colours that stand for values.
#[derive(Debug, Clone)]
pub struct Heat {
    /// (x, y, value), x and y of the middle of the cell. A value that is not finite, or that has no place on
    /// the scale, is drawn grey.
    pub cells: Vec<(f64, f64, f64)>,
    /// Width and height of a cell.
    pub size: (f64, f64),
    /// The values of the darkest and of the brightest colour; values beyond have these colours.
    pub scale: Range<f64>,
    /// Whether powers of ten are equally far apart.
    pub log: bool,
}

impl Heat {
    /// The colour of a value.
    pub fn colour(&self, value: f64) -> RGBColor {
        const STEPS: usize = 256;
        let place = |v: f64| if self.log { v.log10() } else { v };
        let (low, high) = (place(self.scale.start), place(self.scale.end));
        let share = ((place(value) - low) / (high - low)).clamp(0.0, 1.0);
        match value.is_finite() && share.is_finite() {
            true => shade((share * (STEPS - 1) as f64).round() as usize, STEPS),
            false => COLOURS[6],
        }
    }

    /// The legend: one series without a mark per value, with its colour.
    pub fn legend(&self, values: impl IntoIterator<Item = (f64, String)>) -> Vec<Series> {
        let entry = |(value, name)| Series::new(name, self.colour(value), Mark::Line(Vec::new()));
        values.into_iter().map(entry).collect()
    }
}

/// A series with its name; series without one are not in the legend.
#[derive(Debug, Clone)]
pub struct Series {
    pub name: String,
    pub colour: RGBColor,
    pub mark: Mark,
}

/// Axes, and the series drawn between them.
#[derive(Debug, Clone)]
pub struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

impl Series {
    /// A series of this name; an empty name is not in the legend.
    pub fn new(name: impl Into<String>, colour: RGBColor, mark: Mark) -> Self {
        Self {
            name: name.into(),
            colour,
            mark,
        }
    }
}

impl Panel {
    /// A panel without a series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
        }
    }
}

/// The colour of step `k` of `steps`, counted from 0: dark for the first, bright for the last.
pub fn shade(k: usize, steps: usize) -> RGBColor {
    let (first, last) = ([0x2b, 0x2d, 0x6e], [0xf0, 0xa0, 0x30]);
    let share = k as f64 / (steps.max(2) - 1) as f64;
    let blend = |part: usize| {
        let (from, to) = (f64::from(first[part]), f64::from(last[part]));
        (from + share * (to - from)) as u8
    };
    RGBColor(blend(0), blend(1), blend(2))
}

type Drawn = Result<(), Box<dyn Error>>;

/// Draws panels in rows of `columns` under one title.
pub fn draw<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    title: &str,
    columns: usize,
    panels: &[Panel],
) -> Drawn
where
    B::ErrorType: 'static,
{
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 20))?;
    let areas = root.split_evenly((panels.len().div_ceil(columns), columns));
    // The axes of all panels begin at one height.
    let heads = panels.iter().zip(&areas);
    let head = heads.map(|(panel, area)| panel.legend_height(area.dim_in_pixel().0));
    let head = head.max().unwrap_or(0);
    for (panel, area) in panels.iter().zip(&areas) {
        panel.draw(area, head)?;
    }
    root.present()?;
    Ok(())
}
