//! Pretrained encoders: files of safetensors.

use emmy::nn::{Bert, ContraNorm, LayerNorm, Linear, NormLayer};
use emmy::store::weights::Weights;
use emmy::{Error, Result, Tensor};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A file of weights. Two files count as the same if their bytes are equal, whatever their paths.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pretrained {
    /// The CRC-32 of the file, which is the setting.
    crc32: String,
    #[serde(skip)]
    path: PathBuf,
}

impl PartialEq for Pretrained {
    fn eq(&self, other: &Self) -> bool {
        self.crc32 == other.crc32
    }
}

impl Pretrained {
    /// # Errors
    /// If the file is no file of weights, or cannot be read.
    pub fn new(path: &Path) -> Result<Self> {
        let io = |e| Error::io(path, e);
        // A regular file, of the length that its header says.
        Weights::open(path)?;
        let mut file = BufReader::new(std::fs::File::open(path).map_err(io)?);
        let mut hasher = crc32fast::Hasher::new();
        loop {
            let bytes = file.fill_buf().map_err(io)?;
            if bytes.is_empty() {
                break;
            }
            hasher.update(bytes);
            let read = bytes.len();
            file.consume(read);
        }
        Ok(Self {
            crc32: format!("{:08x}", hasher.finalize()),
            path: path.to_owned(),
        })
    }

    /// Puts the weights into an encoder. The file has the names of [`emmy::store::weights::save`] for a
    /// [`Bert`], or those of `BertModel` of the library transformers, with or without `bert.` in front.
    ///
    /// Every block and the pooler must be there; of the vectors of places, as many are taken as the encoder
    /// has. The words of a file are not ours: the vectors of tokens are drawn anew unless the file has
    /// equally many.
    ///
    /// # Errors
    /// If a tensor is missing or has another shape.
    pub fn put_into(&self, model: &mut Bert<f32>) -> Result<()> {
        let file = Weights::open(&self.path)?;
        if file.shape("blocks.layers.0.norm1.weight").is_some() {
            return self.put_ours(&file, model);
        }
        let prefix = ["bert.", ""].into_iter().find(|prefix| {
            file.shape(&format!("{prefix}pooler.dense.weight"))
                .is_some()
        });
        let Some(prefix) = prefix else {
            return Err(Error::invalid(
                format!("weights {}", self.path.display()),
                "an encoder: blocks.layers.0.norm1.weight as emmy writes it, or pooler.dense.weight as transformers does",
                "neither",
            ));
        };
        let of = File {
            file: &file,
            path: &self.path,
            prefix,
        };
        of.put(model)
    }

    fn put_ours(&self, file: &Weights, model: &mut Bert<f32>) -> Result<()> {
        let report = file.load_matching(model)?;
        let is_needed = |name: &str| name.starts_with("blocks.") || name.starts_with("pooler.");
        let missing = report.missing.iter().map(|m| &m.key);
        let misshapen = report.misshapen.iter().map(|m| &m.key);
        match missing.chain(misshapen).find(|name| is_needed(name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid(
                format!("weights {}", self.path.display()),
                format!("a tensor {name} of the encoder's shape"),
                "none",
            )),
        }
    }
}

/// A file with the names of the library transformers.
struct File<'a> {
    file: &'a Weights,
    path: &'a Path,
    prefix: &'a str,
}

impl File<'_> {
    /// A tensor of this shape; the file may have more rows on the first axis.
    fn get(&self, name: &str, shape: &[usize]) -> Result<Tensor<f32>> {
        let key = format!("{}{name}", self.prefix);
        let found = self.file.shape(&key).map(<[usize]>::to_vec);
        let fits = found.as_deref().is_some_and(|found| {
            found.len() == shape.len() && found[0] >= shape[0] && found[1..] == shape[1..]
        });
        if !fits {
            return Err(Error::invalid(
                format!("weights {}", self.path.display()),
                format!("a tensor {key} of shape {shape:?}"),
                found.map_or("none".to_owned(), |found| format!("{found:?}")),
            ));
        }
        let whole: Tensor<f32> = self.file.get(&key)?;
        let rows = emmy::ndarray::Axis(0);
        let part = whole.slice_axis(rows, (0..shape[0]).into());
        Ok(part.to_owned().into_shared())
    }

    fn tensor(&self, name: &str, into: &mut Tensor<f32>) -> Result<()> {
        *into = self.get(name, into.shape())?;
        Ok(())
    }

    fn linear(&self, name: &str, into: &mut Linear<f32>) -> Result<()> {
        self.tensor(&format!("{name}.weight"), &mut into.weight)?;
        match &mut into.bias {
            Some(bias) => self.tensor(&format!("{name}.bias"), bias),
            None => Ok(()),
        }
    }

    fn norm(&self, name: &str, into: &mut NormLayer<f32>) -> Result<()> {
        let norm = match into.downcast_ref::<ContraNorm<f32>>() {
            Some(_) => (into.downcast_mut::<ContraNorm<f32>>()).and_then(|c| c.norm.as_mut()),
            None => into.downcast_mut(),
        };
        let norm: &mut LayerNorm<f32> = match norm {
            Some(norm) => norm,
            None => return Ok(()),
        };
        for (ending, tensor) in [("weight", &mut norm.gain), ("bias", &mut norm.bias)] {
            if let Some(tensor) = tensor {
                self.tensor(&format!("{name}.{ending}"), tensor)?;
            }
        }
        Ok(())
    }

    fn put(&self, model: &mut Bert<f32>) -> Result<()> {
        let words = format!("{}embeddings.word_embeddings.weight", self.prefix);
        if self.file.shape(&words) == Some(model.tokens.weight.shape()) {
            self.tensor(
                "embeddings.word_embeddings.weight",
                &mut model.tokens.weight,
            )?;
        }
        let tables = [
            ("position_embeddings", &mut model.positions),
            ("token_type_embeddings", &mut model.segments),
        ];
        for (name, table) in tables {
            self.tensor(&format!("embeddings.{name}.weight"), &mut table.weight)?;
        }
        self.norm("embeddings.LayerNorm", &mut model.norm)?;
        for (l, block) in model.blocks.layers.iter_mut().enumerate() {
            let at = |part: &str| format!("encoder.layer.{l}.{part}");
            let attention = &mut block.attention;
            self.linear(&at("attention.self.query"), &mut attention.query)?;
            if let Some(key) = &mut attention.key {
                self.linear(&at("attention.self.key"), key)?;
            }
            self.linear(&at("attention.self.value"), &mut attention.value)?;
            self.linear(&at("attention.output.dense"), &mut attention.output)?;
            self.norm(&at("attention.output.LayerNorm"), &mut block.norm1)?;
            self.linear(&at("intermediate.dense"), &mut block.feed_forward.up)?;
            self.linear(&at("output.dense"), &mut block.feed_forward.down)?;
            self.norm(&at("output.LayerNorm"), &mut block.norm2)?;
        }
        self.linear("pooler.dense", &mut model.pooler)
    }
}
