//! Images with labels: the idx files of MNIST and of sets in its format, as upstream publishes them.
//!
//! | set | folder | files |
//! |---|---|---|
//! | MNIST, Fashion-MNIST, any other in the format | `mnist/`, `fashion-mnist/`, or the folder itself | `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-…`; with or without `.gz` |
//! | the 10 000 test digits of MNIST alone | `mnist-t10k/` | `t10k-…` |

mod idx;

pub use idx::{read_images, read_labels};

use super::{Files, locate};
use crate::error::{Error, Result};
use crate::kernels::draw;
use crate::real::Real;
use crate::tensor::Tensor;
use rand::seq::SliceRandom;
use std::path::Path;

/// Grey images of one size, each with a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// All pixels, 0 to 255, image by image, row by row.
    pub pixels: Vec<u8>,
    /// The class of each image.
    pub labels: Vec<u8>,
}

impl Images {
    /// Pairs images with labels.
    ///
    /// # Errors
    /// If there are more or fewer labels than images.
    pub fn new(height: usize, width: usize, pixels: Vec<u8>, labels: Vec<u8>) -> Result<Self> {
        let images = pixels.len().checked_div(height * width).unwrap_or(0);
        if images * height * width != pixels.len() || images != labels.len() {
            return Err(Error::invalid(
                "images",
                format!("one label per image of {height} × {width}"),
                format!("{} pixels and {} labels", pixels.len(), labels.len()),
            ));
        }
        Ok(Self {
            height,
            width,
            pixels,
            labels,
        })
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The number of classes: one more than the largest label.
    pub fn classes(&self) -> usize {
        self.labels.iter().max().map_or(0, |&c| usize::from(c) + 1)
    }

    /// The pixels divided by 255, a row per image, `[images, height · width]`.
    pub fn rows<F: Real>(&self) -> Tensor<F> {
        let values = self.pixels.iter().map(|&p| F::of(f64::from(p) / 255.0));
        let shape = [self.len(), self.height * self.width];
        crate::tensor::tensor(&shape, values.collect())
    }

    /// The classes as numbers.
    pub fn classes_of(&self) -> Vec<usize> {
        self.labels.iter().map(|&c| usize::from(c)).collect()
    }

    /// The images with these numbers.
    ///
    /// # Panics
    /// If a number is not below the number of images.
    #[must_use]
    pub fn select(&self, numbers: &[usize]) -> Self {
        let size = self.height * self.width;
        let of = |&k: &usize| &self.pixels[k * size..(k + 1) * size];
        Self {
            pixels: numbers.iter().flat_map(of).copied().collect(),
            labels: numbers.iter().map(|&k| self.labels[k]).collect(),
            ..*self
        }
    }

    /// The images in an order that follows from the seed, in two parts, of which the second has `held_out`
    /// images.
    ///
    /// # Errors
    /// If one of the parts would be empty.
    pub fn split(&self, held_out: usize, seed: u64) -> Result<(Self, Self)> {
        if held_out == 0 || held_out >= self.len() {
            let rule = format!("a number from 1 to {}", self.len().saturating_sub(1));
            return Err(Error::invalid(
                "images held out",
                rule,
                held_out.to_string(),
            ));
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.shuffle(&mut draw::rng(seed));
        let (train, test) = order.split_at(self.len() - held_out);
        Ok((self.select(train), self.select(test)))
    }
}

/// The public address of MNIST's files, without their names.
pub const ADDRESS: &str = "https://ossci-datasets.s3.amazonaws.com/mnist/";

/// The public address of the files of Fashion-MNIST.
const FASHION: &str = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/";

/// Which images of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `train-…`.
    Train,
    /// `t10k-…`.
    Test,
}

const TRAIN: Files = Files {
    names: &[
        "train-images-idx3-ubyte.gz|train-images-idx3-ubyte",
        "train-labels-idx1-ubyte.gz|train-labels-idx1-ubyte",
    ],
    folders: &["NAME", "NAME-t10k", ""],
    address: "",
};

const TEST: Files = Files {
    names: &[
        "t10k-images-idx3-ubyte.gz|t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte.gz|t10k-labels-idx1-ubyte",
    ],
    ..TRAIN
};

/// Loads a part of an image set from `folder`, or where data are looked for ([`locate`]): `set` is the name
/// of the folder below, such as `mnist`.
///
/// # Errors
/// [`Error::NotFound`] if the files are in none of the places; an error with file, byte and expectation if
/// one is damaged.
pub fn load(folder: Option<&Path>, set: &str, part: Part) -> Result<Images> {
    let files = Files {
        // Of other sets none is known.
        address: match set {
            "mnist" => ADDRESS,
            "fashion-mnist" => FASHION,
            _ => "",
        },
        ..match part {
            Part::Train => TRAIN,
            Part::Test => TEST,
        }
    };
    let roots = locate::roots(folder);
    let folder = files.find(&roots, &format!("the set of images {set}"), set, set)?;
    let find = |names: &str| {
        names
            .split('|')
            .map(|name| folder.join(name))
            .find(|path| path.is_file())
    };
    let [images, labels] = [0, 1].map(|k| find(files.names[k]).unwrap_or_default());
    let (height, width, pixels) = read_images(&images)?;
    Images::new(height, width, pixels, read_labels(&labels)?)
}
