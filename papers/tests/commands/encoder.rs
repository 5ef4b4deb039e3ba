//! `encoder` alone: the rank of a deep encoder, sentences, and pretrained weights.

use super::transformers::{list, run};
use crate::{command, json, refused, succeeded};
use emmy::nn::{Bert, BertConfig, LayerNorm, Linear, NormLayer};
use emmy::store::weights;
use emmy::{Tensor, init};
use std::path::Path;
use tempfile::TempDir;

/// Before training, the effective rank of sentences falls in twelve blocks. ContraNorm after the residual
/// keeps it; ContraNorm before the residual has no effect yet.
#[test]
fn contranorm_holds_the_rank_of_a_deep_encoder() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--depth",
        "12",
        "--norm",
        "none",
        "--norm",
        "contra",
        "--place",
        "before-residual",
        "--place",
        "after-residual",
        "--task",
        "entailment",
        "--steps",
        "0",
        "--tested",
        "40",
        "--json",
    ];
    let (out, _) = succeeded(&command("encoder", &folder, &args).output().unwrap());
    let lines = json(&out);
    let ranks = |place: Option<&str>| {
        let line = lines.iter().find(|line| line["place"].as_str() == place);
        list(&line.unwrap()["erank"])
    };
    let (plain, held) = (ranks(None), ranks(Some("after-residual")));
    assert!(plain[12] < 0.9 * plain[0], "{plain:?}");
    assert!(held[12] > 0.95 * held[0], "{held:?}");
    let before = ranks(Some("before-residual"));
    assert!((before[12] - plain[12]).abs() < 0.5, "{before:?} {plain:?}");
}

#[test]
fn sentences_are_printed() {
    let folder = TempDir::new().unwrap();
    let args = ["--print", "4", "--task", "entailment"];
    let (out, _) = succeeded(&command("encoder", &folder, &args).output().unwrap());
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4);
    for (k, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("{} [cls] ", k % 2)), "{line}");
        assert_eq!(line.matches("[sep]").count(), 2, "{line}");
    }
    let (again, _) = succeeded(&command("encoder", &folder, &args).output().unwrap());
    assert_eq!(again, out);
}

/// The tensors of an encoder with the names of the library transformers.
fn named(bert: &Bert<f32>) -> Vec<(String, Tensor<f32>)> {
    let mut out = Vec::new();
    let mut linear = |name: String, map: &Linear<f32>| {
        out.push((format!("bert.{name}.weight"), map.weight.clone()));
        out.push((format!("bert.{name}.bias"), map.bias.clone().unwrap()));
    };
    for (l, block) in bert.blocks.layers.iter().enumerate() {
        let at = |part: &str| format!("encoder.layer.{l}.{part}");
        linear(at("attention.self.query"), &block.attention.query);
        linear(at("attention.self.key"), block.attention.keys());
        linear(at("attention.self.value"), &block.attention.value);
        linear(at("attention.output.dense"), &block.attention.output);
        linear(at("intermediate.dense"), &block.feed_forward.up);
        linear(at("output.dense"), &block.feed_forward.down);
    }
    linear("pooler.dense".into(), &bert.pooler);
    let mut norm = |name: String, norm: &NormLayer<f32>| {
        let norm: &LayerNorm<f32> = norm.downcast_ref().expect("a LayerNorm");
        out.push((format!("bert.{name}.weight"), norm.gain.clone().unwrap()));
        out.push((format!("bert.{name}.bias"), norm.bias.clone().unwrap()));
    };
    norm("embeddings.LayerNorm".into(), &bert.norm);
    for (l, block) in bert.blocks.layers.iter().enumerate() {
        norm(
            format!("encoder.layer.{l}.attention.output.LayerNorm"),
            &block.norm1,
        );
        norm(format!("encoder.layer.{l}.output.LayerNorm"), &block.norm2);
    }
    for (name, table) in [
        ("word_embeddings", &bert.tokens),
        ("position_embeddings", &bert.positions),
        ("token_type_embeddings", &bert.segments),
    ] {
        out.push((
            format!("bert.embeddings.{name}.weight"),
            table.weight.clone(),
        ));
    }
    out
}

#[test]
fn pretrained_weights_are_read_under_both_names() {
    let folder = TempDir::new().unwrap();
    // More places than the encoder has, and other words.
    let mut bert = Bert::<f32>::new(BertConfig::new(99, 40, 2, 2, 8), 5).unwrap();
    let rng = &mut init::rng(6);
    for entry in emmy::nn::entries_mut(&mut bert) {
        let near = init::normal::<f32>(entry.tensor.shape(), 0.4, rng);
        *entry.tensor = (&*entry.tensor + &near).into_shared();
    }
    let theirs = folder.path().join("theirs.safetensors");
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = named(&bert)
        .into_iter()
        .map(|(name, x)| {
            let bytes = x.iter().flat_map(|v| v.to_le_bytes()).collect();
            (name, x.shape().to_vec(), bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view =
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes);
        (name.as_str(), view.unwrap())
    });
    std::fs::write(&theirs, safetensors::serialize(views, None).unwrap()).unwrap();
    // Our encoder has fewer places: it takes the first ones of the file.
    let first = bert
        .positions
        .weight
        .slice_axis(emmy::ndarray::Axis(0), (0..32).into());
    bert.positions.weight = first.to_owned().into_shared();
    bert.config.context = 32;
    let ours = folder.path().join("ours.safetensors");
    weights::save(&ours, &bert, &bert.config).unwrap();

    let start = |weights: Option<&Path>, norm: &str| {
        let mut args = vec![
            "--depth",
            "2",
            "--task",
            "entailment",
            "--norm",
            norm,
            "--steps",
            "0",
        ];
        args.extend(["--width", "8", "--heads", "2", "--tested", "40", "--json"]);
        if let Some(path) = weights {
            args.extend(["--weights", path.to_str().unwrap()]);
        }
        let (out, _) = succeeded(&command("encoder", &folder, &args).output().unwrap());
        let object = json(&out).remove(0);
        assert_eq!(object["pretrained"], weights.is_some());
        list(&object["erank"])
    };
    for norm in ["none", "contra"] {
        let drawn = start(None, norm);
        let (a, b) = (start(Some(&ours), norm), start(Some(&theirs), norm));
        assert_eq!(a, b);
        assert!((drawn[2] - a[2]).abs() > 1e-3, "{drawn:?} {a:?}");
    }
    let deeper = |path: &Path| {
        let path = path.to_str().unwrap();
        let args = ["--depth", "3", "--task", "entailment", "--weights", path];
        run("encoder", &folder, &args)
    };
    refused(&deeper(&ours), "a tensor blocks.layers.2.");
    refused(
        &deeper(&theirs),
        "a tensor bert.encoder.layer.2.attention.self.query.weight of shape [8, 8]",
    );
    let other = folder.path().join("other.safetensors");
    weights::save(&other, &Linear::<f32>::new(2, 2, true, rng), &()).unwrap();
    refused(&deeper(&other), "expected an encoder");
    refused(&deeper(&folder.path().join("none")), "none");
    #[cfg(unix)]
    refused(&deeper(Path::new("/dev/zero")), "not a regular file");
}
