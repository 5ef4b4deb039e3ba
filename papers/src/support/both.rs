//! A figure as a drawing and as an image at once.

use super::image::{Image, Point, stroke};
use plotters::prelude::{DrawingBackend, SVGBackend};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind,
};

/// Draws each shape twice. The layout is that of the drawing, and the code of the plots is compiled once.
pub struct Both<'a> {
    pub svg: SVGBackend<'a>,
    pub image: &'a mut Image,
}

type Drawn = Result<(), DrawingErrorKind<std::io::Error>>;

fn real((x, y): BackendCoord) -> Point {
    (x as f32, y as f32)
}

impl Both<'_> {
    fn line<S: BackendStyle>(&mut self, path: &[Point], style: &S) {
        let shape = stroke(path, style.stroke_width() as f32);
        self.image.fill(&shape, style.color());
    }

    /// The area within an outline, or a line along it.
    fn area<S: BackendStyle>(&mut self, mut outline: Vec<Point>, style: &S, fill: bool) {
        if fill {
            return self.image.fill(&vec![outline], style.color());
        }
        // The outline begins in the middle of a side, so that there is a corner at every point.
        let (first, last) = (outline[0], outline[outline.len() - 1]);
        let middle = ((first.0 + last.0) / 2.0, (first.1 + last.1) / 2.0);
        outline.insert(0, middle);
        outline.push(middle);
        self.line(&outline, style);
    }
}

impl DrawingBackend for Both<'_> {
    type ErrorType = std::io::Error;

    fn get_size(&self) -> (u32, u32) {
        self.svg.get_size()
    }

    fn ensure_prepared(&mut self) -> Drawn {
        self.svg.ensure_prepared()
    }

    fn present(&mut self) -> Drawn {
        self.svg.present()
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Drawn {
        let (x, y) = real(at);
        self.area(rectangle((x, y), (x + 1.0, y + 1.0)), &colour, true);
        self.svg.draw_pixel(at, colour)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.line(&[real(from), real(to)], style);
        self.svg.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        self.area(rectangle(real(from), real(to)), style, fill);
        self.svg.draw_rect(from, to, style, fill)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let path: Vec<_> = path.into_iter().collect();
        let points: Vec<_> = path.iter().copied().map(real).collect();
        self.line(&points, style);
        self.svg.draw_path(path, style)
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        at: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let (x, y) = real(at);
        let around = (0..64).map(|k| {
            let (sin, cos) = (k as f32 * std::f32::consts::TAU / 64.0).sin_cos();
            (x + radius as f32 * cos, y + radius as f32 * sin)
        });
        self.area(around.collect(), style, fill);
        self.svg.draw_circle(at, radius, style, fill)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        let corners: Vec<_> = corners.into_iter().collect();
        let outline = corners.iter().copied().map(real).collect();
        self.area(outline, style, true);
        self.svg.fill_polygon(corners, style)
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        self.image.text(text, style, real(at));
        self.svg.draw_text(text, style, at)
    }
}

fn rectangle((x0, y0): Point, (x1, y1): Point) -> Vec<Point> {
    vec![(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
}
