//! Images: shapes and text with smooth edges, as a browser shows them in an SVG.

use ab_glyph_rasterizer::{Rasterizer, point};
use flate2::{Compression, write::ZlibEncoder};
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendTextStyle};
use std::io::Write;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Pixels per unit of the drawing, in each direction.
const SCALE: f32 = 2.0;

/// In units of the drawing, to the right and down.
pub type Point = (f32, f32);

/// Closed outlines. The inside of an outline is part of the shape; two outlines with opposite directions
/// cancel, as at the hole of an "o".
pub type Shape = Vec<Vec<Point>>;

pub struct Image {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
    font: Face<'static>,
}

impl Image {
    /// A black image. The font is a part of the program, since a machine may have no fonts.
    pub fn new((width, height): (u32, u32)) -> Self {
        let [width, height] = [width, height].map(|side| (side as f32 * SCALE) as usize);
        let font = Face::parse(dejavu::sans::regular(), 0).expect("a font");
        let rgb = vec![0; 3 * width * height];
        Self {
            width,
            height,
            rgb,
            font,
        }
    }

    /// Fills a shape. A pixel takes the colour in proportion to the part of it that the shape covers.
    pub fn fill(&mut self, shape: &Shape, colour: BackendColor) {
        let pixels = || shape.iter().flatten().map(|&(x, y)| (x * SCALE, y * SCALE));
        let infinite = (f32::INFINITY, f32::INFINITY);
        let (left, top) = pixels().fold(infinite, |(x, y), p| (p.0.min(x), p.1.min(y)));
        let (left, top) = (left.floor(), top.floor());
        let (wide, high) = pixels().fold((0.0_f32, 0.0_f32), |(w, h), (x, y)| {
            (w.max(x - left), h.max(y - top))
        });
        let mut covered = Rasterizer::new(wide.ceil() as usize, high.ceil() as usize);
        let place = |(x, y): Point| point(x * SCALE - left, y * SCALE - top);
        for outline in shape {
            for (from, to) in outline.iter().zip(outline.iter().cycle().skip(1)) {
                covered.draw_line(place(*from), place(*to));
            }
        }
        let (r, g, b) = colour.rgb;
        covered.for_each_pixel_2d(|x, y, share| {
            // Outside the shape, sums of shares are not exactly 0.
            if share < 1e-3 {
                return;
            }
            // Outlines that overlap cover a pixel more than once.
            let share = share.min(1.0) * colour.alpha as f32;
            let (x, y) = (left as i32 + x as i32, top as i32 + y as i32);
            if (0..self.width as i32).contains(&x) && (0..self.height as i32).contains(&y) {
                let first = 3 * (y as usize * self.width + x as usize);
                for (old, new) in self.rgb[first..].iter_mut().zip([r, g, b]) {
                    let mixed = f32::from(*old) * (1.0 - share) + f32::from(new) * share;
                    *old = (mixed + 0.5) as u8;
                }
            }
        });
    }

    /// Writes text from, up to or round a point, at the heights and in the size that `SVGBackend` chooses.
    pub fn text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): Point) {
        let em = style.size() as f32 / 1.24;
        let scale = em / f32::from(self.font.units_per_em());
        let mut length = 0.0;
        let mut last = None;
        let mut glyphs = Vec::new();
        for c in text.chars() {
            // Glyph 0 shows that the font has none.
            let glyph = self.font.glyph_index(c).unwrap_or_default();
            length += last.map_or(0.0, |last| scale * self.kerning(last, glyph));
            glyphs.push((glyph, length));
            length += scale * f32::from(self.font.glyph_hor_advance(glyph).unwrap_or_default());
            last = Some(glyph);
        }
        let back = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => length / 2.0,
            HPos::Right => length,
        };
        let down = match style.anchor().v_pos {
            VPos::Top => 0.76 * em,
            VPos::Center => 0.25 * em,
            VPos::Bottom => -0.25 * em,
        };
        // The directions "right" and "down" of a rotated text.
        let turn = style.transform();
        let (right, below) = (turn.transform(1, 0), turn.transform(0, 1));
        let [a, b, c, d] = [right.0, below.0, right.1, below.1].map(|n| n as f32);
        let mut shape = Shape::new();
        for (glyph, start) in glyphs {
            let place = |along: f32, up: f32| {
                let (u, v) = (start - back + scale * along, down - scale * up);
                (x + a * u + b * v, y + c * u + d * v)
            };
            let mut outlines = Outlines {
                shape: &mut shape,
                place,
            };
            self.font.outline_glyph(glyph, &mut outlines);
        }
        self.fill(&shape, style.color());
    }

    /// The kerning of two glyphs: the change of their distance, in units of the font.
    fn kerning(&self, left: GlyphId, right: GlyphId) -> f32 {
        let tables = self
            .font
            .tables()
            .kern
            .into_iter()
            .flat_map(|kern| kern.subtables);
        let mut pairs = tables.filter(|table| table.horizontal && !table.has_cross_stream);
        pairs
            .find_map(|table| table.glyphs_kerning(left, right))
            .map_or(0.0, f32::from)
    }

    /// The image as a file: <https://www.w3.org/TR/png-3>.
    pub fn png(&self) -> Vec<u8> {
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        let mut chunk = |kind: &[u8; 4], data: &[u8]| {
            file.extend((data.len() as u32).to_be_bytes());
            let start = file.len();
            file.extend(kind);
            file.extend(data);
            file.extend(crc32fast::hash(&file[start..]).to_be_bytes());
        };
        let [width, height] = [self.width, self.height].map(|side| (side as u32).to_be_bytes());
        // Eight bits for each of red, green and blue.
        chunk(b"IHDR", &[&width[..], &height, &[8, 2, 0, 0, 0]].concat());
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
        for row in self.rgb.chunks_exact(3 * self.width) {
            // Filter 0: the bytes as they are.
            packed.write_all(&[0]).expect("it is written to memory");
            packed.write_all(row).expect("it is written to memory");
        }
        chunk(b"IDAT", &packed.finish().expect("it is written to memory"));
        chunk(b"IEND", &[]);
        file
    }
}

/// Collects the outlines of a glyph, at their place in the drawing.
struct Outlines<'a, F> {
    shape: &'a mut Shape,
    place: F,
}

impl<F: Fn(f32, f32) -> Point> OutlineBuilder for Outlines<'_, F> {
    fn move_to(&mut self, x: f32, y: f32) {
        self.shape.push(vec![(self.place)(x, y)]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let outline = self.shape.last_mut().expect("a glyph begins with a move");
        outline.push((self.place)(x, y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let outline = self.shape.last_mut().expect("a glyph begins with a move");
        let (from, via, to) = (
            outline[outline.len() - 1],
            (self.place)(x1, y1),
            (self.place)(x, y),
        );
        // At the size of our text, four line segments look like the curve.
        outline.extend([0.25, 0.5, 0.75, 1.0].map(|t| {
            let mix = |a, b, c| (1.0 - t) * (1.0 - t) * a + 2.0 * t * (1.0 - t) * b + t * t * c;
            (mix(from.0, via.0, to.0), mix(from.1, via.1, to.1))
        }));
    }

    fn curve_to(&mut self, _: f32, _: f32, _: f32, _: f32, _: f32, _: f32) {
        unreachable!("the curves of TrueType are quadratic")
    }

    fn close(&mut self) {}
}

/// The shape of a line of this width along a path: a rectangle for each piece, and a corner, pointed unless
/// it is sharp, between two.
pub fn stroke(path: &[Point], width: f32) -> Shape {
    let half = width / 2.0;
    let pieces = path.windows(2).filter(|ends| ends[0] != ends[1]);
    let mut shape = Shape::new();
    let mut last: Option<Point> = None;
    for ends in pieces {
        let ((x0, y0), (x1, y1)) = (ends[0], ends[1]);
        let length = (x1 - x0).hypot(y1 - y0);
        // Across the line, half its width long.
        let (u, v) = (half * (y0 - y1) / length, half * (x1 - x0) / length);
        if let Some((s, t)) = last {
            // The corner is on the outer side; all outlines have the same direction.
            let outer = if s * v - t * u > 0.0 { -1.0 } else { 1.0 };
            let at = |k: f32, (a, b): Point| (x0 + outer * k * a, y0 + outer * k * b);
            let mut corner = vec![(x0, y0), at(1.0, (s, t)), at(1.0, (u, v))];
            // The tip of the corner is 1 / cos times as far away as the edges, at most four times.
            let cos2 = (half * half + s * u + t * v) / (2.0 * half * half);
            if cos2 > 1.0 / 16.0 {
                corner.insert(2, at(0.5 / cos2, (s + u, t + v)));
            }
            if outer > 0.0 {
                corner.reverse();
            }
            shape.push(corner);
        }
        shape.push(vec![
            (x0 - u, y0 - v),
            (x1 - u, y1 - v),
            (x1 + u, y1 + v),
            (x0 + u, y0 + v),
        ]);
        last = Some((u, v));
    }
    shape
}
