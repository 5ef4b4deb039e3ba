//! Figures as SVG.

use emmy::train::History;
use emmy::{Error, Result};
use plotters::prelude::*;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One curve of a panel: a name, a colour, a value an epoch.
struct Curve<'a> {
    name: &'a str,
    colour: RGBColor,
    values: Vec<f64>,
}

/// A colour for training, validation and test nodes each, told apart by colour-blind readers too.
const TRAIN: RGBColor = RGBColor(0x44, 0x77, 0xaa);
const VAL: RGBColor = RGBColor(0xee, 0x66, 0x77);
const TEST: RGBColor = RGBColor(0x22, 0x88, 0x33);

/// Draws loss and accuracy over the epochs into `folder/name.svg`; the best epoch is marked.
pub fn training(folder: &Path, name: &str, title: &str, history: &History) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    let path = folder.join(format!("{name}.svg"));
    let mut svg = String::new();
    draw(&mut svg, title, history)
        .unwrap_or_else(|e| panic!("a drawing in memory cannot fail: {e}"));
    std::fs::write(&path, svg).map_err(|e| Error::io(&path, e))?;
    Ok(path)
}

fn draw(
    svg: &mut String,
    title: &str,
    history: &History,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (960, 400)).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 20))?;
    let (left, right) = root.split_horizontally(480);
    let values = |f: fn(&emmy::train::Record) -> f64| history.records.iter().map(f).collect();
    let curve = |name, colour, f| Curve {
        name,
        colour,
        values: values(f),
    };
    let best = history.best().map(|r| r.epoch);
    let losses = [
        curve("training (with dropout)", TRAIN, |r| r.loss),
        curve("validation", VAL, |r| r.val_loss),
    ];
    let top = losses
        .iter()
        .flat_map(|c| &c.values)
        .copied()
        .filter(|x| x.is_finite())
        .fold(0.0, f64::max);
    panel(&left, "loss", 0.0..(1.05 * top).max(0.01), &losses, best)?;
    let accuracies = [
        curve("training", TRAIN, |r| r.train_acc),
        curve("validation", VAL, |r| r.val_acc),
        curve("test", TEST, |r| r.test_acc),
    ];
    panel(&right, "accuracy", 0.0..1.0, &accuracies, best)?;
    root.present()?;
    Ok(())
}

fn panel<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    what: &str,
    range: Range<f64>,
    curves: &[Curve<'_>],
    best: Option<usize>,
) -> std::result::Result<(), Box<dyn std::error::Error>>
where
    B::ErrorType: 'static,
{
    let epochs = curves[0].values.len().max(2);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(1.0..epochs as f64, range.clone())?;
    chart
        .configure_mesh()
        .x_desc("epoch")
        .y_desc(what)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .draw()?;
    if let Some(best) = best {
        let mark = [(best as f64, range.start), (best as f64, range.end)];
        chart
            .draw_series(LineSeries::new(mark, BLACK.mix(0.5)))?
            .label(format!("best epoch, {best}"))
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], BLACK.mix(0.5)));
    }
    for curve in curves {
        let colour = curve.colour;
        let points = curve
            .values
            .iter()
            .enumerate()
            .map(|(k, &y)| ((k + 1) as f64, y));
        chart
            .draw_series(LineSeries::new(
                points.filter(|(_, y)| y.is_finite()),
                colour.stroke_width(2),
            ))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(if range.end == 1.0 {
            SeriesLabelPosition::LowerRight
        } else {
            SeriesLabelPosition::UpperRight
        })
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    Ok(())
}
