//! The drawing of one panel.

use super::{Axis, Drawn, Mark, Panel, Series};
use plotters::chart::SeriesAnno;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::error::Error;
use std::ops::Range;

type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Panel {
    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let (xs, ys) = self.values();
        let (x, y) = (self.x.span(xs.into_iter()), self.y.span(ys.into_iter()));
        let (bottom, top) = (y.start, y.end);
        let (width, height) = (x.end - x.start, top - bottom);
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
                // There is a tick at every half; the names are at the whole numbers.
                n => 2 * n + 1,
            })
            .x_label_formatter(&|v| self.x.text(*v, width))
            .y_label_formatter(&|v| self.y.text(*v, height))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.1))
            .draw()?;
        for series in &self.series {
            let colour = series.colour;
            let annotation = self.mark(&mut chart, series)?;
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

    /// Draws one series.
    fn mark<'c, 'a, B: DrawingBackend + 'a>(
        &self,
        chart: &'c mut Chart<'a, B>,
        series: &Series,
    ) -> Result<&'c mut SeriesAnno<'a, B>, Box<dyn Error>>
    where
        B::ErrorType: 'static,
    {
        let colour = series.colour;
        let Range {
            start: bottom,
            end: top,
        } = chart.y_range();
        let at = |x: f64, y: f64| Some((self.x.place(x)?, self.y.place(y)?));
        Ok(match &series.mark {
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
            Mark::Dots(points) => chart.draw_series(
                (points.iter().filter_map(|&(x, y)| at(x, y)))
                    .map(|p| Circle::new(p, 3, colour.filled())),
            )?,
            Mark::Boxes(boxes) => {
                self.boxes(chart, boxes, colour)?;
                chart.draw_series(std::iter::empty::<Circle<(f64, f64), i32>>())?
            }
            Mark::Bars(bars, width) => {
                // On an axis of powers of ten, 0 lies below the panel.
                let zero = self.y.place(0.0).map_or(bottom, |z| z.clamp(bottom, top));
                chart.draw_series(bars.iter().filter_map(|&(x, y)| {
                    let end = self.y.place(y)?;
                    let corners = [(x - width / 2.0, zero), (x + width / 2.0, end)];
                    Some(Rectangle::new(corners, colour.filled()))
                }))?
            }
            Mark::Heat(heat) => {
                let (wide, high) = (heat.size.0 / 2.0, heat.size.1 / 2.0);
                chart.draw_series(heat.cells.iter().filter_map(|&(x, y, value)| {
                    let corners = [at(x - wide, y - high)?, at(x + wide, y + high)?];
                    Some(Rectangle::new(corners, heat.colour(value).filled()))
                }))?
            }
        })
    }

    /// A box from quarter to three quarters with whiskers, a line at the median, a dot at the mean.
    fn boxes<B: DrawingBackend>(
        &self,
        chart: &mut Chart<'_, B>,
        boxes: &[(f64, [f64; 5], f64)],
        colour: RGBColor,
    ) -> Drawn
    where
        B::ErrorType: 'static,
    {
        const HALF: f64 = 0.09;
        for &(x, [least, low, median, high, largest], mean) in boxes {
            let y = |v: f64| self.y.place(v);
            if let (Some(a), Some(b)) = (y(least), y(largest)) {
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
                Mark::Line(points) | Mark::Dashes(points) | Mark::Dots(points) => {
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
                Mark::Heat(heat) => {
                    let (wide, high) = (heat.size.0 / 2.0, heat.size.1 / 2.0);
                    for &(x, y, _) in &heat.cells {
                        xs.extend([x - wide, x + wide]);
                        ys.extend([y - high, y + high]);
                    }
                }
            }
        }
        (xs, ys)
    }
}
