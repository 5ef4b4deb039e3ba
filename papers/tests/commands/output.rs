//! The output of `cora`: standard output, standard error and files.

use super::*;
use std::io::Read;
use std::ops::Range;

#[test]
fn json_has_the_promised_keys_and_all_else_goes_to_standard_error() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--dataset",
        "karate",
        "--model",
        "gatv2",
        "--seeds",
        "2",
        "--seed",
        "5",
        "--epochs",
        "4",
        "--json",
    ];
    let (out, err) = succeeded(&cora(&folder, &args));
    let lines = json(&out);
    assert_eq!(lines.len(), 3);
    for (k, line) in lines[..2].iter().enumerate() {
        let keys = [
            "dataset",
            "model",
            "layers",
            "seed",
            "test_acc",
            "val_acc",
            "best_epoch",
            "epochs",
            "ms_per_epoch",
            "final_loss",
            "max_delta",
        ];
        assert!(keys.iter().all(|key| !line[key].is_null()), "{line}");
        assert_eq!(line["dataset"], "karate");
        assert_eq!(line["model"], "gatv2");
        assert_eq!(
            (line["layers"].as_u64(), line["epochs"].as_u64()),
            (Some(2), Some(4))
        );
        assert_eq!(line["seed"].as_u64(), Some(5 + k as u64));
    }
    let summary = &lines[2];
    assert_eq!(summary["summary"], true);
    let accuracies = [0, 1].map(|k| lines[k]["test_acc"].as_f64().unwrap());
    let mean = summary["test_acc_mean"].as_f64().unwrap();
    assert!((mean - (accuracies[0] + accuracies[1]) / 2.0).abs() < 1e-12);
    let std = (accuracies[0] - accuracies[1]).abs() / 2.0_f64.sqrt();
    assert!((summary["test_acc_std"].as_f64().unwrap() - std).abs() < 1e-12);
    assert!(
        err.contains("figure: figures/karate-gatv2-L2-seed5.svg"),
        "{err}"
    );
    let figure =
        std::fs::read_to_string(folder.path().join("figures/karate-gatv2-L2-seed6.svg")).unwrap();
    assert!(
        figure.starts_with("<svg")
            && figure.contains("accuracy")
            && figure.trim_end().ends_with("</svg>")
    );
}

#[test]
fn figures_are_images_too_that_look_as_the_drawings_do() {
    let folder = TempDir::new().unwrap();
    let args = ["--dataset", "karate", "--epochs", "40"];
    succeeded(&cora(&folder, &args));
    let path = folder.path().join("figures/karate-gat-L2-seed0");
    let drawing = std::fs::read_to_string(path.with_extension("svg")).unwrap();
    assert!(drawing.starts_with(r#"<svg width="960" height="400""#));
    let (width, pixels) = read_png(&path.with_extension("png"));
    assert_eq!((width, pixels.len()), (1920, 1920 * 800));
    let within = |x: Range<usize>, y: Range<usize>, test: fn([u8; 3]) -> bool| {
        let places = y.flat_map(|y| x.clone().map(move |x| (x, y)));
        places.filter(|&(x, y)| test(pixels[y * width + x])).count()
    };
    let dark = |rgb: [u8; 3]| rgb.iter().all(|&c| c < 128);
    // The title, in the middle and nowhere else at its height.
    let title = within(0..1920, 0..60, dark);
    assert!(
        title > 300 && title == within(600..1320, 0..60, dark),
        "{title}"
    );
    // Edges are smooth: about letters there are greys.
    let grey = within(600..1320, 0..60, |[r, g, b]| {
        r == g && g == b && (64..192).contains(&r)
    });
    assert!(grey > 300, "{grey}");
    // "loss" is written upwards, left of the first panel: higher than it is wide.
    let label = within(0..48, 340..480, dark);
    assert!(
        label > 60 && label == within(16..40, 370..450, dark),
        "{label}"
    );
    // Each curve in its colour, in both panels.
    for x in [0..960, 960..1920] {
        assert!(within(x.clone(), 0..800, |rgb| rgb == [0x44, 0x77, 0xaa]) > 100);
        assert!(within(x, 0..800, |rgb| rgb == [0xee, 0x66, 0x77]) > 100);
    }
    let green = |rgb| rgb == [0x22, 0x88, 0x33];
    assert_eq!(within(0..960, 0..800, green), 0);
    assert!(within(960..1920, 0..800, green) > 100);
}

/// The width and the pixels of a PNG of red, green and blue with eight bits each, without filters.
fn read_png(path: &Path) -> (usize, Vec<[u8; 3]>) {
    let file = std::fs::read(path).unwrap();
    let mut rest = file.strip_prefix(b"\x89PNG\r\n\x1a\n").unwrap();
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let word = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
        let end = 8 + word(0) as usize;
        assert_eq!(word(end), crc32fast::hash(&rest[4..end]));
        chunks.push((&rest[4..8], &rest[8..end]));
        rest = &rest[end + 4..];
    }
    let [(b"IHDR", header), (b"IDAT", packed), (b"IEND", [])] = chunks[..] else {
        panic!("other chunks than IHDR, IDAT and IEND");
    };
    let [width, height] = [0, 4].map(|k| u32::from_be_bytes(header[k..k + 4].try_into().unwrap()));
    assert_eq!(header[8..], [8, 2, 0, 0, 0]);
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(packed)
        .read_to_end(&mut bytes)
        .unwrap();
    let rows = bytes.chunks(1 + 3 * width as usize);
    assert_eq!(rows.len(), height as usize);
    let pixels = rows.flat_map(|row| {
        assert_eq!(row[0], 0);
        row[1..].chunks(3).map(|rgb| rgb.try_into().unwrap())
    });
    (width as usize, pixels.collect())
}

#[test]
fn what_is_reported_is_of_the_best_epoch() {
    let folder = TempDir::new().unwrap();
    // A learning rate so high that the best epoch comes early.
    let args = ["--dataset", "karate", "--dropout", "0.2", "--epochs", "30"];
    let args = [&args[..], &["--lr", "0.5", "--seed", "2"]].concat();
    let run = |more: &[&str]| succeeded(&cora(&folder, &[&args[..], more].concat())).0;
    let line = &json(&run(&["--json", "--save", "run.ckpt"]))[0];
    let path = folder.path().join("run.ckpt");
    let state = store::load::<f32, TrainState<f32>>(&path).unwrap();
    let (best, last) = (state.history.best().unwrap(), state.history.last().unwrap());
    let differ = |name| best.metrics[name] != last.metrics[name];
    assert!(differ("test_acc") && differ("val_acc"));
    for (key, expected) in [
        ("test_acc", best.metrics["test_acc"]),
        ("val_acc", best.metrics["val_acc"]),
        ("best_epoch", best.epoch as f64),
        ("final_loss", state.history.steps[29].loss),
    ] {
        approx::assert_relative_eq!(line[key].as_f64().unwrap(), expected, epsilon = 1e-12);
    }
    assert!(state.description.contains("\"dropout\":0.2"));

    // The confusion matrix agrees with the accuracy.
    let out = run(&["--resume", "run.ckpt"]);
    let rows = out
        .lines()
        .skip_while(|line| !line.contains("recall"))
        .skip(1)
        .take_while(|line| !line.contains("precis."));
    let rows: Vec<Vec<f64>> = rows
        .map(|row| {
            let numbers = row.split_whitespace().skip(1).take(2);
            numbers.map(|count| count.parse().unwrap()).collect()
        })
        .collect();
    let all: f64 = rows.iter().flatten().sum();
    let karate = emmy::data::karate();
    assert_eq!(all as usize, karate.splits[0].counts()[2]);
    assert_eq!(
        (rows[0][0] + rows[1][1]) / all,
        best.metrics["test_acc"],
        "{out}"
    );
}

#[test]
fn the_text_has_accuracy_time_confusion_and_figure() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&cora(
        &folder,
        &["--dataset", "karate", "--epochs", "5", "--figures", "plots"],
    ));
    for part in [
        "test accuracy",
        "best validation epoch",
        "largest relative δ",
        "ms per epoch",
        "taken for",
        "recall",
        "figure: plots/",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(folder.path().join("plots/karate-gat-L2-seed0.svg").exists());
}

#[test]
fn without_cora_it_says_so_in_one_line_and_takes_cora_like() {
    let folder = TempDir::new().unwrap();
    let args = ["--model", "gcn", "--epochs", "2", "--json"];
    let (out, err) = succeeded(&cora(&folder, &args));
    assert_eq!(json(&out)[0]["dataset"], "cora-like");
    let said: Vec<_> = err
        .lines()
        .filter(|line| line.contains("not found"))
        .collect();
    assert_eq!(said.len(), 1, "{err}");
    assert!(
        said[0].contains("Cora") && said[0].contains("--data"),
        "{err}"
    );
}

#[test]
fn a_figure_that_cannot_be_written_costs_no_result() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    let args = [
        "--dataset",
        "karate",
        "--epochs",
        "2",
        "--figures",
        "file/x",
    ];
    for more in [&["--seeds", "2"][..], &["--seeds", "2", "--json"]] {
        let output = cora(&folder, &[&args[..], more].concat());
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
        assert!(err.contains("file/x") && !err.contains("panicked"), "{err}");
        // Both seeds and the summary.
        match more.contains(&"--json") {
            true => assert_eq!(json(&out).len(), 3),
            false => {
                assert_eq!(out.matches("test accuracy").count(), 3, "{out}");
                assert!(out.contains("mean of 2 seeds"), "{out}");
            }
        }
    }
}

#[test]
fn no_figure_is_drawn_where_none_is_wanted() {
    let folder = TempDir::new().unwrap();
    let args = ["--dataset", "karate", "--epochs", "2", "--figures", "none"];
    let (out, _) = succeeded(&cora(&folder, &args));
    assert!(
        out.contains("test accuracy") && !out.contains("figure"),
        "{out}"
    );
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files(), 0);
    // A folder with the name none is given with its path.
    let path = [
        "--dataset",
        "karate",
        "--epochs",
        "2",
        "--figures",
        "./none",
    ];
    succeeded(&cora(&folder, &path));
    assert_eq!(files(), 1);
}

#[test]
fn a_figure_takes_the_place_of_an_older_one_whole() {
    let folder = TempDir::new().unwrap();
    let args = ["--dataset", "karate", "--epochs", "2"];
    let names = ["svg", "png"].map(|ending| format!("karate-gat-L2-seed0.{ending}"));
    let figures = folder.path().join("figures");
    std::fs::create_dir(&figures).unwrap();
    // Hard links keep what was there: a file written in place would change them too.
    for name in &names {
        std::fs::write(figures.join(name), b"old").unwrap();
        std::fs::hard_link(figures.join(name), folder.path().join(name)).unwrap();
    }
    succeeded(&cora(&folder, &args));
    for name in &names {
        assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), b"old");
        assert!(std::fs::read(figures.join(name)).unwrap().len() > 1000);
    }
    // No temporary file is left, also if the figure cannot be written.
    let count = || std::fs::read_dir(&figures).unwrap().count();
    assert_eq!(count(), 2);
    std::fs::remove_file(figures.join(&names[0])).unwrap();
    std::fs::create_dir(figures.join(&names[0])).unwrap();
    let output = cora(&folder, &args);
    assert!(!output.status.success() && text(&output.stdout).contains("test accuracy"));
    assert_eq!(count(), 2);
}

/// A class that was never predicted has no precision, and one without nodes no recall.
#[test]
fn scores_that_do_not_exist_are_dashes() {
    let counts = ndarray::array![[2, 1, 0], [1, 3, 0], [0, 0, 0]];
    let table = papers::support::report::confusion(&counts);
    assert!(!table.contains("NaN"), "{table}");
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[2].ends_with(" 66.7 %") && lines[4].ends_with(" –"),
        "{table}"
    );
    assert!(lines[5].ends_with("67   75    –  %"), "{table}");
}
