//! The legend of a panel: above its axes, so that it covers no data.

use super::{Drawn, Panel};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// In pixels: the space above, the height of a row, the size of the text, the sample of colour before a name, the space between
/// it and the name, the space behind a name, and the mean width of a character.
const ABOVE: u32 = 4;
const ROW: u32 = 17;
const SIZE: i32 = 13;
const SAMPLE: i32 = 14;
const GAP: i32 = 5;
const BEHIND: i32 = 14;
const CHARACTER: f64 = 6.0;

/// Where the first name begins, and the space to the right of the last: the margins of the axes.
pub(super) const LEFT: i32 = 68;
pub(super) const RIGHT: i32 = 10;

impl Panel {
    /// The place of each named series in a panel of this width: its index, its distance from the left, its row.
    fn places(&self, width: i32) -> Vec<(usize, i32, u32)> {
        let (mut x, mut row) = (LEFT, 0);
        let mut places = Vec::new();
        for (k, series) in self.series.iter().enumerate() {
            if series.name.is_empty() {
                continue;
            }
            let letters = series.name.chars().count() as f64;
            let wide = SAMPLE + GAP + (CHARACTER * letters).ceil() as i32;
            if x > LEFT && x + wide > width - RIGHT {
                (x, row) = (LEFT, row + 1);
            }
            places.push((k, x, row));
            x += wide + BEHIND;
        }
        places
    }

    /// The height of the legend in a panel of this width.
    pub(super) fn legend_height(&self, width: u32) -> u32 {
        let places = self.places(width as i32);
        places
            .last()
            .map_or(0, |(_, _, row)| ABOVE + ROW * (row + 1))
    }

    /// Draws the legend from the top of an area.
    pub(super) fn legend<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let at_left = Pos::new(HPos::Left, VPos::Center);
        let style = TextStyle::from(("sans-serif", SIZE)).pos(at_left);
        for (k, x, row) in self.places(area.dim_in_pixel().0 as i32) {
            let y = (ABOVE + ROW * row + ROW / 2) as i32;
            let series = &self.series[k];
            let line = [(x, y), (x + SAMPLE, y)];
            let colour = series.colour.stroke_width(3);
            area.draw(&PathElement::new(line, colour))?;
            let name = series.name.clone();
            area.draw(&Text::new(name, (x + SAMPLE + GAP, y), style.clone()))?;
        }
        Ok(())
    }
}
