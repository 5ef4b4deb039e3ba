//! The drawing of one panel.

use super::axis::Scale;
use super::legend::{LEFT, RIGHT};
use super::{Drawn, Mark, Panel, Series};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::ops::Range;

type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<Scale, Scale>>;

impl Panel {
    /// Draws the panel, with `head` pixels for the legend.
    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, head: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let area = match self.title.is_empty() {
            true => area.clone(),
            false => area.titled(&self.title, ("sans-serif", 15))?,
        };
        let (legend, area) = area.split_vertically(head);
        self.legend(&legend)?;
        let (xs, ys) = self.values();
        let (x, y) = (self.x.span(xs.into_iter()), self.y.span(ys.into_iter()));
        let (x, y) = (self.x.scale(x), self.y.scale(y));
        let steps = [x.step, y.step];
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .margin_right(RIGHT)
            .x_label_area_size(36)
            .y_label_area_size(LEFT - 10)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|v| self.x.text(*v, steps[0]))
            .y_label_formatter(&|v| self.y.text(*v, steps[1]))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.1))
            .draw()?;
        for series in &self.series {
            self.mark(&mut chart, series)?;
        }
        Ok(())
    }

    /// Draws one series.
    fn mark<B: DrawingBackend>(&self, chart: &mut Chart<'_, B>, series: &Series) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let colour = series.colour;
        let Range {
            start: bottom,
            end: top,
        } = chart.y_range();
        let at = |x: f64, y: f64| Some((self.x.place(x)?, self.y.place(y)?));
        match &series.mark {
            Mark::Line(points) | Mark::Dashes(points) if points.len() == 1 => {
                self.dots(chart, points, colour)?;
            }
            Mark::Line(points) => {
                chart.draw_series(LineSeries::new(
                    points.iter().filter_map(|&(x, y)| at(x, y)),
                    colour.stroke_width(2),
                ))?;
            }
            Mark::Dashes(points) => {
                chart.draw_series(DashedLineSeries::new(
                    points.iter().filter_map(|&(x, y)| at(x, y)),
                    6,
                    4,
                    colour.stroke_width(2),
                ))?;
            }
            Mark::Band(points) => {
                let up = points.iter().filter_map(|&(x, _, high)| at(x, high));
                let down = points.iter().rev().filter_map(|&(x, low, _)| at(x, low));
                let outline: Vec<_> = up.chain(down).collect();
                chart.draw_series(std::iter::once(Polygon::new(outline, colour.mix(0.2))))?;
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
                ))?;
            }
            Mark::Dots(points) => self.dots(chart, points, colour)?,
            Mark::Boxes(boxes) => self.boxes(chart, boxes, colour)?,
            Mark::Bars(bars, width) => {
                // On an axis of powers of ten, 0 lies below the panel.
                let zero = self.y.place(0.0).map_or(bottom, |z| z.clamp(bottom, top));
                chart.draw_series(bars.iter().filter_map(|&(x, y)| {
                    let end = self.y.place(y)?;
                    let corners = [(x - width / 2.0, zero), (x + width / 2.0, end)];
                    Some(Rectangle::new(corners, colour.filled()))
                }))?;
            }
            Mark::Heat(heat) => {
                let (wide, high) = (heat.size.0 / 2.0, heat.size.1 / 2.0);
                chart.draw_series(heat.cells.iter().filter_map(|&(x, y, value)| {
                    let corners = [at(x - wide, y - high)?, at(x + wide, y + high)?];
                    Some(Rectangle::new(corners, heat.colour(value).filled()))
                }))?;
            }
        }
        Ok(())
    }

    fn dots<B: DrawingBackend>(
        &self,
        chart: &mut Chart<'_, B>,
        points: &[(f64, f64)],
        colour: RGBColor,
    ) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let places = points
            .iter()
            .filter_map(|&(x, y)| Some((self.x.place(x)?, self.y.place(y)?)));
        chart.draw_series(places.map(|p| Circle::new(p, 3, colour.filled())))?;
        Ok(())
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
