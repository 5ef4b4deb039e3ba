//! Images that need no file: ten shapes, drawn with strokes.

use emmy::data::images::Images;
use emmy::init::{self, Rng};
use emmy::kernels::random::mix;
use rand::RngExt;
use std::f64::consts::PI;

/// The names of the classes of [`strokes`].
pub const SHAPES: [&str; 10] = [
    "circle", "triangle", "square", "plus", "cross", "arrow", "zigzag", "arc", "bars", "spiral",
];

/// Rows and columns of an image.
const SIDE: usize = 28;

/// A point, x to the right, y down; shapes fill −1 to 1.
type Point = [f64; 2];

/// `count` images of 28 × 28 pixels in the ten classes [`SHAPES`], in the format of MNIST: image k has the
/// class k mod 10.
///
/// Each shape is turned, sheared, scaled and shifted a little, its corners are moved, and it is drawn with a
/// stroke of some width among two short strokes that mean nothing, in noise. Image k follows from the seed
/// and k alone, so that the first images of a larger set are those of a smaller one.
///
/// ```
/// use papers::vision::strokes::strokes;
/// let images = strokes(25, 7);
/// assert_eq!((images.len(), images.classes()), (25, 10));
/// assert_eq!(images, strokes(30, 7).select(&(0..25).collect::<Vec<_>>()));
/// ```
pub fn strokes(count: usize, seed: u64) -> Images {
    let classes = SHAPES.len();
    let one = |k: usize| draw(k % classes, &mut init::rng(mix(seed, k as u64)));
    Images {
        height: SIDE,
        width: SIDE,
        pixels: (0..count).flat_map(one).collect(),
        labels: (0..count).map(|k| (k % classes) as u8).collect(),
    }
}

/// The lines of a shape.
fn lines(class: usize) -> Vec<Vec<Point>> {
    // Angles in turns; sin and cos of libm are the same on every machine.
    let on_circle = |turns: f64, radius: f64| {
        let angle = 2.0 * PI * turns;
        [radius * libm::cos(angle), radius * libm::sin(angle)]
    };
    match class {
        0 => vec![(0..=16).map(|k| on_circle(k as f64 / 16.0, 0.9)).collect()],
        1 => vec![vec![[0.0, -0.9], [0.85, 0.7], [-0.85, 0.7], [0.0, -0.9]]],
        2 => {
            let corners = [[-0.8, -0.8], [0.8, -0.8], [0.8, 0.8], [-0.8, 0.8]];
            vec![corners.into_iter().chain([corners[0]]).collect()]
        }
        3 => vec![vec![[0.0, -0.9], [0.0, 0.9]], vec![[-0.9, 0.0], [0.9, 0.0]]],
        4 => vec![
            vec![[-0.75, -0.75], [0.75, 0.75]],
            vec![[-0.75, 0.75], [0.75, -0.75]],
        ],
        5 => vec![
            vec![[0.0, 0.9], [0.0, -0.9]],
            vec![[-0.55, -0.3], [0.0, -0.9], [0.55, -0.3]],
        ],
        6 => vec![
            [-0.9, -0.45, 0.0, 0.45, 0.9]
                .into_iter()
                .zip([-0.6, 0.6].into_iter().cycle())
                .map(|(x, y)| [x, y])
                .collect(),
        ],
        7 => vec![(0..=8).map(|k| on_circle(k as f64 / 16.0, 0.85)).collect()],
        8 => vec![
            vec![[-0.8, -0.4], [0.8, -0.4]],
            vec![[-0.8, 0.4], [0.8, 0.4]],
        ],
        _ => vec![
            (0..=24)
                .map(|k| on_circle(k as f64 / 14.0, 0.9 * k as f64 / 24.0))
                .collect(),
        ],
    }
}

/// The pixels of one image.
fn draw(class: usize, rng: &mut Rng) -> Vec<u8> {
    let mut within = |from: f64, to: f64| rng.random_range(from..to);
    let (angle, shear) = (within(-0.4, 0.4), within(-0.25, 0.25));
    let scale = [within(6.0, 10.0), within(6.0, 10.0)];
    let middle = SIDE as f64 / 2.0;
    let shift = [middle + within(-3.0, 3.0), middle + within(-3.0, 3.0)];
    let (sin, cos) = (libm::sin(angle), libm::cos(angle));
    let mut segments: Vec<([Point; 2], f64)> = Vec::new();
    for line in lines(class) {
        let moved = line.into_iter().map(|[x, y]| {
            let x = scale[0] * (x + shear * y + within(-0.08, 0.08));
            let y = scale[1] * (y + within(-0.08, 0.08));
            [shift[0] + cos * x - sin * y, shift[1] + sin * x + cos * y]
        });
        let moved: Vec<Point> = moved.collect();
        segments.extend(moved.windows(2).map(|ends| ([ends[0], ends[1]], 1.0)));
    }
    for _ in 0..2 {
        let side = SIDE as f64;
        let from = [within(1.0, side - 1.0), within(1.0, side - 1.0)];
        let to = from.map(|x| x + within(-7.0, 7.0));
        segments.push(([from, to], within(0.4, 0.9)));
    }
    let radius = within(0.8, 1.5);
    let mut ink = vec![0.0_f64; SIDE * SIDE];
    for (ends, strength) in &segments {
        // Half a pixel of the stroke's edge is grey on each side; beyond there is no ink.
        let near = |axis: usize| {
            let [low, high] = [
                ends[0][axis].min(ends[1][axis]),
                ends[0][axis].max(ends[1][axis]),
            ];
            let first = (low - radius - 1.0).max(0.0) as usize;
            let last = (high + radius + 1.0).clamp(0.0, SIDE as f64) as usize;
            first..last
        };
        for row in near(1) {
            for column in near(0) {
                let at = [column as f64 + 0.5, row as f64 + 0.5];
                let here = strength * (radius + 0.5 - distance(at, ends)).clamp(0.0, 1.0);
                let place = &mut ink[row * SIDE + column];
                *place = place.max(here);
            }
        }
    }
    let grey = |ink: f64| (255.0 * (ink + within(-0.15, 0.15)).clamp(0.0, 1.0)).round() as u8;
    ink.into_iter().map(grey).collect()
}

/// The distance of a point from a segment.
fn distance([x, y]: Point, [[x0, y0], [x1, y1]]: &[Point; 2]) -> f64 {
    let along = [x1 - x0, y1 - y0];
    let length = along[0] * along[0] + along[1] * along[1];
    let place = ((x - x0) * along[0] + (y - y0) * along[1]) / length.max(1e-12);
    let place = place.clamp(0.0, 1.0);
    let off = [x - x0 - place * along[0], y - y0 - place * along[1]];
    (off[0] * off[0] + off[1] * off[1]).sqrt()
}
