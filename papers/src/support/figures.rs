//! Figures as files.

use super::args::Figures;
use super::both::Both;
use super::image::Image;
use super::plot::{Axis, COLOURS, Mark, Panel, Series, draw};
use emmy::train::History;
use emmy::{Error, Result};
use plotters::prelude::*;
use std::path::{Path, PathBuf};

/// Panels in rows of `columns` under a title.
pub struct Figure {
    /// The name of its files.
    pub name: String,
    pub title: String,
    pub columns: usize,
    pub panels: Vec<Panel>,
    /// Width and height in pixels.
    pub size: (u32, u32),
}

impl Figure {
    /// A figure of the panels that are not empty, in a size that fits them; `None` if all are empty.
    pub fn new(name: &str, title: &str, columns: usize, mut panels: Vec<Panel>) -> Option<Self> {
        panels.retain(|panel| !panel.series.is_empty());
        let rows = panels.len().div_ceil(columns) as u32;
        (!panels.is_empty()).then(|| Self {
            name: name.to_owned(),
            title: title.to_owned(),
            columns,
            panels,
            size: (420 * columns as u32 + 60, 330 * rows + 40),
        })
    }

    /// Draws the figure, see [`write()`].
    pub fn write(&self, figures: &Figures) -> Result<Vec<PathBuf>> {
        let (name, title) = (&self.name, &self.title);
        write(figures, name, self.size, title, self.columns, &self.panels)
    }
}

/// Draws panels in rows of `columns` under a title, as `folder/name.svg` and as an image in
/// `folder/name.png`. Returns their paths; none if no figure is wanted.
pub fn write(
    figures: &Figures,
    name: &str,
    size: (u32, u32),
    title: &str,
    columns: usize,
    panels: &[Panel],
) -> Result<Vec<PathBuf>> {
    let Figures::Folder(folder) = figures else {
        return Ok(Vec::new());
    };
    let (mut svg, mut image) = (String::new(), Image::new(size));
    let root = Both {
        svg: SVGBackend::with_string(&mut svg, size),
        image: &mut image,
    }
    .into_drawing_area();
    draw(&root, title, columns, panels)
        .unwrap_or_else(|e| panic!("a drawing in memory cannot fail: {e}"));
    drop(root);
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    let save = |ending: &str, bytes: &[u8]| {
        let path = folder.join(format!("{name}.{ending}"));
        replace(&path, bytes).map_err(|e| Error::io(&path, e))?;
        Ok(path)
    };
    Ok(vec![
        save("svg", svg.as_bytes())?,
        save("png", &image.png())?,
    ])
}

/// Writes a file under a temporary name beside its place and renames it: whatever fails, the path holds the
/// old figure or the new one.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().expect("a figure has a name").to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = std::fs::write(&temporary, bytes);
    written
        .and_then(|()| std::fs::rename(&temporary, path))
        .inspect_err(|_| {
            // The temporary file is not needed any more.
            let _ = std::fs::remove_file(&temporary);
        })
}

/// Draws loss and accuracy over the epochs into `folder/name.svg` and `.png`; the best epoch is marked.
/// Returns the path of the SVG; `None` if no figure is wanted.
pub fn training(
    figures: &Figures,
    name: &str,
    title: &str,
    history: &History,
) -> Result<Option<PathBuf>> {
    let curve = |name: &str, colour: usize, points: Vec<(f64, f64)>| Series {
        name: name.into(),
        colour: COLOURS[colour],
        mark: Mark::Line(points),
    };
    let metric = |name: &str| -> Vec<(f64, f64)> {
        let records = history.records.iter();
        records.map(|r| (r.epoch as f64, r.metrics[name])).collect()
    };
    // A training loss belongs to the point where its step begins.
    let steps = history.steps.iter();
    let training = steps.map(|s| ((s.epoch - 1) as f64, s.loss)).collect();
    let losses = vec![
        curve("training, in training mode", 0, training),
        curve("validation", 1, metric("val_loss")),
    ];
    let accuracies = vec![
        curve("training", 0, metric("train_acc")),
        curve("validation", 1, metric("val_acc")),
        curve("test", 2, metric("test_acc")),
    ];
    let evaluated = (history.records.iter()).map(|r| r.metrics["val_loss"]);
    let top = (history.steps.iter().map(|s| s.loss))
        .chain(evaluated)
        .filter(|x| x.is_finite())
        .fold(0.0, f64::max);
    let panel = |label: &str, top: f64, mut series: Vec<Series>| {
        if let Some(best) = history.best() {
            let x = best.epoch as f64;
            series.push(Series {
                name: format!("best epoch, {}", best.epoch),
                colour: COLOURS[6],
                mark: Mark::Dashes(vec![(x, 0.0), (x, top)]),
            });
        }
        Panel {
            title: String::new(),
            x: Axis::new("epoch"),
            y: Axis::new(label).within(0.0..top),
            series,
        }
    };
    let panels = [
        panel("loss", (1.05 * top).max(0.01), losses),
        panel("accuracy", 1.0, accuracies),
    ];
    let paths = write(figures, name, (960, 400), title, 2, &panels)?;
    Ok(paths.into_iter().next())
}
