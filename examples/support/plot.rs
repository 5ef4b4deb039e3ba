//! Panels of curves, points, bars and boxes; what a figure is made of.

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

/// One axis.
#[derive(Debug, Clone)]
pub struct Axis {
    pub label: String,
    /// From where to where; none to fit what is drawn.
    pub range: Option<Range<f64>>,
    /// Whether powers of ten are equally far apart; values of 0 and below are then left out.
    pub log: bool,
    /// Names of the places 0, 1, 2, … in place of numbers.
    pub names: Vec<String>,
}

impl Axis {
    /// An axis of numbers that fits what is drawn.
    pub fn new(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            range: None,
            log: false,
            names: Vec::new(),
        }
    }

    /// From where to where.
    pub fn within(self, range: Range<f64>) -> Self {
        Self {
            range: Some(range),
            ..self
        }
    }

    /// In powers of ten.
    pub fn log(self) -> Self {
        Self { log: true, ..self }
    }

    /// With names for 0, 1, 2, …
    pub fn named(self, names: Vec<String>) -> Self {
        Self {
            range: Some(-0.5..names.len() as f64 - 0.5),
            names,
            ..self
        }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let place = if self.log { value.log10() } else { value };
        place.is_finite().then_some(place)
    }

    fn span(&self, values: impl Iterator<Item = f64>) -> Range<f64> {
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

    fn text(&self, place: f64) -> String {
        if !self.names.is_empty() {
            let whole = (place - place.round()).abs() < 1e-6 && place > -0.5;
            let name = whole.then(|| self.names.get(place.round() as usize));
            return name.flatten().cloned().unwrap_or_default();
        }
        let value = if self.log { 10f64.powf(place) } else { place };
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

/// What is drawn of one series.
#[derive(Debug, Clone)]
pub enum Mark {
    /// (x, y)
    Line(Vec<(f64, f64)>),
    /// (x, y), dashed
    Dashes(Vec<(f64, f64)>),
    /// (x, from, to)
    Band(Vec<(f64, f64, f64)>),
    /// (x, y, half of the error bar), joined by a line
    Points(Vec<(f64, f64, f64)>),
    /// (x, from least to largest: whisker, box, median, box, whisker; mean)
    Boxes(Vec<(f64, [f64; 5], f64)>),
    /// (x, y) from 0, of this width
    Bars(Vec<(f64, f64)>, f64),
}

/// A series with its name; series without one are not in the legend.
#[derive(Debug, Clone)]
pub struct Series {
    pub name: String,
    pub colour: RGBColor,
    pub mark: Mark,
}

/// Axes and what is drawn between them.
#[derive(Debug, Clone)]
pub struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
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
    for (panel, area) in panels.iter().zip(&areas) {
        panel.draw(area)?;
    }
    root.present()?;
    Ok(())
}

impl Panel {
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let (xs, ys) = self.values();
        let (x, y) = (self.x.span(xs.into_iter()), self.y.span(ys.into_iter()));
        let (bottom, top) = (y.start, y.end);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 15))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(58)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_labels(match self.x.names.len() {
                0 => 8,
                // A tick at every half: the names stand at the whole numbers.
                n => 2 * n + 1,
            })
            .x_label_formatter(&|v| self.x.text(*v))
            .y_label_formatter(&|v| self.y.text(*v))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.1))
            .draw()?;
        for series in &self.series {
            let colour = series.colour;
            let at = |x: f64, y: f64| Some((self.x.place(x)?, self.y.place(y)?));
            let annotation = match &series.mark {
                Mark::Line(points) => chart.draw_series(LineSeries::new(
                    points.iter().filter_map(|&(x, y)| at(x, y)),
                    colour.stroke_width(2),
                ))?,
                Mark::Dashes(points) => chart.draw_series(DashedLineSeries::new(
                    points.iter().filter_map(|&(x, y)| at(x, y)),
                    6,
                    4,
                    colour.stroke_width(2),
                ))?,
                Mark::Band(points) => {
                    let up = points.iter().filter_map(|&(x, _, high)| at(x, high));
                    let down = points.iter().rev().filter_map(|&(x, low, _)| at(x, low));
                    let outline: Vec<_> = up.chain(down).collect();
                    chart.draw_series(std::iter::once(Polygon::new(outline, colour.mix(0.2))))?
                }
                Mark::Points(points) => {
                    chart.draw_series(points.iter().filter_map(|&(x, y, half)| {
                        // A bar that leaves the panel ends at its edge.
                        let end = |y| Some((self.x.place(x)?, self.y.place(y)?.clamp(bottom, top)));
                        let ends = [end(y - half)?, end(y + half)?];
                        Some(PathElement::new(ends, colour.stroke_width(1)))
                    }))?;
                    chart.draw_series(
                        (points.iter().filter_map(|&(x, y, _)| at(x, y)))
                            .map(|p| Circle::new(p, 3, colour.filled())),
                    )?;
                    chart.draw_series(LineSeries::new(
                        points.iter().filter_map(|&(x, y, _)| at(x, y)),
                        colour.stroke_width(2),
                    ))?
                }
                Mark::Boxes(boxes) => {
                    self.boxes(&mut chart, boxes, colour)?;
                    chart.draw_series(std::iter::empty::<Circle<(f64, f64), i32>>())?
                }
                Mark::Bars(bars, width) => {
                    chart.draw_series(bars.iter().filter_map(|&(x, y)| {
                        let top = self.y.place(y)?;
                        let corners = [(x - width / 2.0, bottom), (x + width / 2.0, top)];
                        Some(Rectangle::new(corners, colour.filled()))
                    }))?
                }
            };
            if !series.name.is_empty() {
                annotation.label(&series.name).legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(3))
                });
            }
        }
        if self.series.iter().any(|s| !s.name.is_empty()) {
            chart
                .configure_series_labels()
                .position(self.emptiest_corner())
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.2))
                .draw()?;
        }
        Ok(())
    }

    /// A box from quarter to three quarters with whiskers, a line at the median, a dot at the mean.
    fn boxes<B: DrawingBackend>(
        &self,
        chart: &mut ChartContext<
            '_,
            B,
            Cartesian2d<
                plotters::coord::types::RangedCoordf64,
                plotters::coord::types::RangedCoordf64,
            >,
        >,
        boxes: &[(f64, [f64; 5], f64)],
        colour: RGBColor,
    ) -> Drawn
    where
        B::ErrorType: 'static,
    {
        const HALF: f64 = 0.09;
        for &(x, [least, low, median, high, largest], mean) in boxes {
            let y = |v: f64| self.y.place(v);
            if let (Some(a), Some(b)) = (y(least.max(f64::MIN_POSITIVE)), y(largest)) {
                chart.draw_series([PathElement::new([(x, a), (x, b)], colour.stroke_width(1))])?;
            }
            if let (Some(a), Some(b)) = (y(low), y(high)) {
                let corners = [(x - HALF, a), (x + HALF, b)];
                chart.draw_series([Rectangle::new(corners, colour.mix(0.4).filled())])?;
                chart.draw_series([Rectangle::new(corners, colour.stroke_width(1))])?;
            }
            if let Some(m) = y(median) {
                let line = [(x - HALF, m), (x + HALF, m)];
                chart.draw_series([PathElement::new(line, colour.stroke_width(2))])?;
            }
            if let Some(m) = y(mean) {
                chart.draw_series([Circle::new((x, m), 2, BLACK.filled())])?;
            }
        }
        Ok(())
    }

    /// The corner with the fewest points, for the legend.
    fn emptiest_corner(&self) -> SeriesLabelPosition {
        use SeriesLabelPosition::{LowerLeft, LowerRight, UpperLeft, UpperRight};
        let (xs, ys) = self.values();
        let (x, y) = (
            self.x.span(xs.iter().copied()),
            self.y.span(ys.iter().copied()),
        );
        let share = |axis: &Axis, span: &Range<f64>, v: f64| {
            (axis.place(v)).map(|p| (p - span.start) / (span.end - span.start))
        };
        let places: Vec<(f64, f64)> = (xs.iter().zip(&ys))
            .filter_map(|(&a, &b)| Some((share(&self.x, &x, a)?, share(&self.y, &y, b)?)))
            .collect();
        let crowd = |right: bool, upper: bool| {
            let near = |v: f64, far: bool| if far { v > 0.55 } else { v < 0.45 };
            let inside = |p: &&(f64, f64)| near(p.0, right) && near(p.1, upper);
            places.iter().filter(inside).count()
        };
        let corners = [
            (crowd(true, true), UpperRight),
            (crowd(true, false), LowerRight),
            (crowd(false, true), UpperLeft),
            (crowd(false, false), LowerLeft),
        ];
        let best = corners.into_iter().min_by_key(|(crowd, _)| *crowd);
        best.map_or(UpperRight, |(_, corner)| corner)
    }

    /// Every x and every y that is drawn, in pairs.
    fn values(&self) -> (Vec<f64>, Vec<f64>) {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        for series in &self.series {
            match &series.mark {
                Mark::Line(points) | Mark::Dashes(points) => {
                    for &(x, y) in points {
                        xs.push(x);
                        ys.push(y);
                    }
                }
                Mark::Band(points) => {
                    for &(x, low, high) in points {
                        xs.extend([x, x]);
                        ys.extend([low, high]);
                    }
                }
                Mark::Points(points) => {
                    for &(x, y, half) in points {
                        xs.extend([x, x]);
                        ys.extend([y - half, y + half]);
                    }
                }
                Mark::Boxes(boxes) => {
                    for (x, five, _) in boxes {
                        xs.extend([*x; 5]);
                        ys.extend(five);
                    }
                }
                Mark::Bars(bars, width) => {
                    for &(x, y) in bars {
                        xs.extend([x - width, x + width]);
                        ys.extend([0.0, y]);
                    }
                }
            }
        }
        (xs, ys)
    }
}
