//! Figures: the legend covers no data, ticks are round numbers, every point is drawn.

use papers::support::args::Figures;
use papers::support::figures::{Figure, write};
use papers::support::plot::{Axis, COLOURS, Heat, Mark, Panel, Series};
use tempfile::TempDir;

/// The drawing of panels side by side.
fn drawn(panels: &[Panel]) -> String {
    let folder = TempDir::new().unwrap();
    let figures = Figures::Folder(folder.path().to_owned());
    let size = (420 * panels.len() as u32, 330);
    let paths = write(&figures, "figure", size, "title", panels.len(), panels).unwrap();
    std::fs::read_to_string(&paths[0]).unwrap()
}

/// The texts of a drawing with their places.
fn texts(svg: &str) -> Vec<(String, f64, f64)> {
    let mut found = Vec::new();
    for element in svg.split("<text ").skip(1) {
        let number = |name: &str| -> f64 {
            let (_, rest) = element.split_once(&format!("{name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let text = element.split_once('>').unwrap().1;
        let text = text.split("</text>").next().unwrap().trim().to_owned();
        found.push((text, number("x"), number(" y")));
    }
    found
}

/// The corners of all curves of a colour.
fn corners(svg: &str, colour: &str) -> Vec<(f64, f64)> {
    let lines = svg.split("<polyline ").skip(1);
    let of_colour = lines.filter(|line| line.split("/>").next().unwrap().contains(colour));
    let points = of_colour.flat_map(|line| {
        let (_, points) = line.split_once("points=\"").unwrap();
        let points = points.split('"').next().unwrap().split_whitespace();
        points.map(|point| {
            let (x, y) = point.split_once(',').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        })
    });
    points.collect()
}

fn line(name: &str, colour: usize, points: &[(f64, f64)]) -> Series {
    Series::new(name, COLOURS[colour], Mark::Line(points.to_vec()))
}

fn panel(x: Axis, y: Axis, series: Vec<Series>) -> Panel {
    Panel {
        series,
        ..Panel::new("", x, y)
    }
}

/// Curves along all four sides of the panel, so that no corner is free.
#[test]
fn a_legend_covers_no_data() {
    let around = [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)];
    let names = [
        "first",
        "second",
        "a name of some length",
        "one more of them",
    ];
    let series = (names.iter().enumerate()).map(|(k, name)| line(name, k, &around));
    let plain = panel(Axis::new("x"), Axis::new("y"), series.collect());
    let few = panel(
        Axis::new("x"),
        Axis::new("y"),
        vec![line("alone", 0, &around)],
    );
    let svg = drawn(&[plain, few]);
    let texts = texts(&svg);
    // The last curve lies over the others.
    let curves = [corners(&svg, "#AA3377"), corners(&svg, "#4477AA")].concat();
    let long = curves.iter().filter(|(x, _)| *x > 60.0);
    let top = long
        .clone()
        .map(|(_, y)| *y)
        .filter(|y| *y > 90.0)
        .fold(f64::INFINITY, f64::min);
    assert!(top.is_finite(), "{svg}");
    for name in names.iter().chain(&["alone"]) {
        let (_, x, y) = texts.iter().find(|(text, ..)| text == name).unwrap();
        assert!(*y + 8.0 < top, "{name} at {y}, the curves begin at {top}");
        assert!(*x > 60.0 && *y > 20.0, "{name} at {x}, {y}");
    }
    // The names do not fit into one row; no two of them overlap.
    let placed: Vec<_> = (texts.iter())
        .filter(|(text, ..)| names.contains(&&**text))
        .collect();
    assert!(placed[0].2 < placed[3].2, "{placed:?}");
    for pair in placed.windows(2) {
        let [(first, x, y), (_, next, below)] = pair else {
            unreachable!()
        };
        let end = x + 5.0 * first.chars().count() as f64;
        assert!(below > y || *next > end, "{pair:?}");
    }
}

/// The texts left of a panel, those at the ticks of y.
fn left(svg: &str) -> Vec<String> {
    let all = texts(svg).into_iter();
    let ticks = all.filter(|(text, x, _)| *x < 68.0 && text != "y");
    ticks.map(|(text, ..)| text).collect()
}

#[test]
fn ticks_are_round_numbers() {
    for (axis, low, high, expected) in [
        (
            Axis::new("y").log(),
            0.004,
            0.42,
            &["0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5"][..],
        ),
        (
            Axis::new("y").log(),
            3e-7,
            2.0,
            &["1e-6", "1e-5", "1e-4", "0.001", "0.01", "0.1", "1"],
        ),
        (
            Axis::new("y").within(0.0..1.0),
            0.3,
            0.4,
            &["0", "0.2", "0.4", "0.6", "0.8", "1.0"],
        ),
        (Axis::new("y"), 19.0, 61.0, &["20", "30", "40", "50", "60"]),
        (
            Axis::new("y"),
            -2e-5,
            2e-5,
            &["-2e-5", "-1e-5", "0", "1e-5", "2e-5"],
        ),
        (
            Axis::new("y"),
            1e6,
            1.4e6,
            &["1.0e6", "1.1e6", "1.2e6", "1.3e6", "1.4e6"],
        ),
        // A single value has ticks that differ.
        (Axis::new("y"), 20.0, 20.0, &["10", "15", "20", "25", "30"]),
    ] {
        let series = vec![line("", 0, &[(0.0, low), (1.0, high)])];
        let mut found = left(&drawn(&[panel(Axis::new("x"), axis, series)]));
        found.reverse();
        let mut wanted = expected.to_vec();
        wanted.reverse();
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert!(found == expected || found == wanted, "{found:?}");
    }
}

#[test]
fn a_curve_of_one_point_is_a_dot() {
    let alone = |points: &[(f64, f64)]| {
        let series = vec![line("", 0, points)];
        drawn(&[panel(Axis::new("x"), Axis::new("y"), series)])
    };
    let circles = |svg: &str| svg.matches("<circle").count();
    assert_eq!(circles(&alone(&[(20.0, 3.9)])), 1);
    assert_eq!(circles(&alone(&[(20.0, 3.9), (40.0, 3.0)])), 0);
}

/// The axes of a heat map end where its cells end, and the last number is that of the last cell.
#[test]
fn a_heat_map_fills_its_panel() {
    let cells = (0..30).map(|k| (2.0 * f64::from(k) + 1.0, 1.0, 0.5));
    let heat = Heat {
        cells: cells.collect(),
        size: (2.0, 1.0),
        scale: 0.1..1.0,
        log: true,
    };
    let legend = heat.legend([(1.0, "norm 1".to_owned()), (0.1, "0.1".to_owned())]);
    let mut series = vec![Series::new("", COLOURS[0], Mark::Heat(heat))];
    series.extend(legend);
    let x = Axis::new("epoch").within(0.0..60.0);
    let panel = panel(x, Axis::new("y").within(0.5..1.5), series);
    let svg = drawn(std::slice::from_ref(&panel));
    let texts = texts(&svg);
    for tick in ["0", "20", "40", "60", "norm 1"] {
        assert!(texts.iter().any(|(text, ..)| text == tick), "{tick}");
    }
    assert!(!texts.iter().any(|(text, ..)| text == "70"));
    let figure = Figure::new("heat", "title", 1, vec![panel]).unwrap();
    assert_eq!(figure.size, (480, 370));
}
