//! A vision transformer.

use super::{BlockConfig, Transformer, start};
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::init;
use crate::nn::{Activation, Dropout, Embedding, Layer, Linear, Pass};
use crate::ops::attention::Mask;
use crate::real::Real;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// The configuration of a [`VisionTransformer`]. Start from [`new`](Self::new), and change fields.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VisionConfig {
    /// Height and width of an image, in pixels.
    pub image: [usize; 2],
    /// Numbers per pixel.
    pub channels: usize,
    /// Height and width of a patch, in pixels.
    pub patch: usize,
    /// The number of classes.
    pub classes: usize,
    /// The number of blocks.
    pub layers: usize,
    /// The blocks.
    pub block: BlockConfig,
    /// Whether a learnt class token is classified; else the mean of the patches is.
    pub class_token: bool,
}

impl VisionConfig {
    /// Pre-norm blocks with GELU and 4 × `width` hidden neurons, and a class token, for square images.
    pub fn new(
        image: usize,
        channels: usize,
        patch: usize,
        classes: usize,
        layers: usize,
        heads: usize,
        width: usize,
    ) -> Self {
        let mut block = BlockConfig::pre_norm_encoder(width, heads, width.saturating_mul(4));
        block.feed_forward.activation = Activation::Gelu;
        Self {
            image: [image; 2],
            channels,
            patch,
            classes,
            layers,
            block,
            class_token: true,
        }
    }

    /// The number of patches of an image.
    pub fn patches(&self) -> usize {
        let along = |size: usize| size.checked_div(self.patch).unwrap_or(0);
        along(self.image[0]) * along(self.image[1])
    }

    /// Checks whether a model can be built.
    ///
    /// # Errors
    /// If a size is 0, the image cannot be cut into patches, or the blocks are not
    /// [valid](BlockConfig::validate) blocks without memory.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("vision transformer");
        let [height, width] = self.image;
        rules.sizes(&[
            ("image height", height),
            ("image width", width),
            ("channels", self.channels),
            ("patch", self.patch),
            ("classes", self.classes),
            ("layers", self.layers),
        ])?;
        let divides = self.image.iter().all(|n| n.is_multiple_of(self.patch));
        let rule = format!("a number that divides the image's {height} × {width} pixels");
        rules.hold(divides, "patch", rule, self.patch)?;
        rules.hold(self.block.cross.is_none(), "cross-attention", "none", "one")?;
        self.block.validate()
    }
}

/// Logits of an image: patches as tokens, positions, blocks, a map of the class token (or of the mean patch).
///
/// Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021, Eq. (1) to (4). Weights start as N(0,
/// 0.02²), as in the code of DeiT (which cuts off the tails).
///
/// | tensor | shape |
/// |---|---|
/// | images | `[items, channels, height, width]` |
/// | a patch as a token | `channels · patch · patch` numbers, row by row of each channel |
/// | logits | `[items, classes]` |
///
/// An image of 4 × 4 pixels, cut into four patches of 2 × 2. With weights ¼ and without positions a token is
/// the mean of its patch; the first patch has the pixels 0, 1, 4 and 5.
///
/// ```
/// use emmy::{Tape, nn::{Pass, VisionConfig, VisionTransformer}, tensor::tensor};
///
/// // One channel, patches of 2, three classes, one block of one head, width 2.
/// let config = VisionConfig { class_token: false, ..VisionConfig::new(4, 1, 2, 3, 1, 1, 2) };
/// let mut model = VisionTransformer::<f64>::new(config, 0)?;
/// model.patches.weight.fill(0.25);
/// model.positions.weight.fill(0.0);
/// let tape = Tape::new();
/// let pass = Pass::eval(&tape, &model);
/// let image = tape.constant(tensor(&[1, 1, 4, 4], (0..16).map(f64::from).collect()));
/// let tokens = model.embedded(&pass, image);
/// assert_eq!(tokens.shape(), [1, 4, 2]);
/// assert_eq!(tokens.value()[[0, 0, 0]], 2.5);
/// assert_eq!(model.forward(&pass, image).shape(), [1, 3]);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct VisionTransformer<F: Real> {
    /// The map of a patch to a token.
    pub patches: Linear<F>,
    /// The class token, `[width]`.
    pub class_token: Option<Tensor<F>>,
    /// A vector per place; the class token has the first.
    pub positions: Embedding<F>,
    /// The blocks.
    pub blocks: Transformer<F>,
    /// The map to classes.
    pub head: Linear<F>,
    /// Sizes and options.
    pub config: VisionConfig,
}
crate::module!(VisionTransformer: patches, class_token = Table, positions, blocks, head);

impl<F: Real> VisionTransformer<F> {
    /// A model with freshly drawn weights.
    ///
    /// # Errors
    /// If the configuration is not [valid](VisionConfig::validate).
    pub fn new(config: VisionConfig, seed: u64) -> Result<Self> {
        config.validate()?;
        let rng = &mut init::rng(seed);
        let width = config.block.attention.width;
        let pixels = config.channels * config.patch * config.patch;
        let places = config.patches() + usize::from(config.class_token);
        let mut model = Self {
            patches: Linear::new(pixels, width, true, rng),
            class_token: config.class_token.then(|| init::zeros(&[width])),
            positions: Embedding::new(places, width, rng),
            blocks: Transformer::new(config.layers, config.block, rng)?,
            head: Linear::new(width, config.classes, true, rng),
            config,
        };
        start::normal(&mut model, 0.02, 0.02, rng);
        Ok(model)
    }

    /// The logits.
    ///
    /// # Panics
    /// If the images do not have the configured shape.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, images: Var<'t, F>) -> Var<'t, F> {
        self.check(images);
        pass.call(self, &[images], || {
            let x = self.encode(pass, images);
            let read = match self.class_token {
                Some(_) => x.slice(1, 0..1).squeeze(1),
                None => x.mean(&[1], false),
            };
            self.head.forward(pass, read)
        })
    }

    /// The tokens after the last block, `[items, tokens, width]`; the class token is the first.
    ///
    /// # Panics
    /// If the images do not have the configured shape.
    #[track_caller]
    pub fn tokens<'t>(&self, pass: &Pass<'t, '_, F>, images: Var<'t, F>) -> Var<'t, F> {
        self.check(images);
        pass.call(self, &[images], || self.encode(pass, images))
    }

    fn encode<'t>(&self, pass: &Pass<'t, '_, F>, images: Var<'t, F>) -> Var<'t, F> {
        (self.blocks).forward(pass, self.embedded(pass, images), &Mask::none())
    }

    /// The tokens before the first block, `[items, tokens, width]`, with their positions.
    ///
    /// # Panics
    /// If the images do not have the configured shape.
    #[track_caller]
    pub fn embedded<'t>(&self, pass: &Pass<'t, '_, F>, images: Var<'t, F>) -> Var<'t, F> {
        self.check(images);
        let c = &self.config;
        let (items, p) = (images.shape()[0], c.patch);
        let [rows, columns] = c.image.map(|size| size / p);
        let cut = images.reshape(&[items, c.channels, rows, p, columns, p]);
        let tokens = cut.permute(&[0, 2, 4, 1, 3, 5]);
        let tokens = tokens.reshape(&[items, rows * columns, c.channels * p * p]);
        let mut x = self.patches.forward(pass, tokens);
        if let Some(token) = &self.class_token {
            let width = token.len();
            let token = pass.param(token).broadcast_to(&[items, 1, width]);
            x = Var::concat(&[token, x], 1);
        }
        let places: Vec<usize> = (0..self.positions.weight.shape()[0]).collect();
        x = x + self.positions.forward(pass, &places);
        let dropout = Dropout { p: c.block.dropout };
        dropout.forward(pass, x).var()
    }

    #[track_caller]
    fn check(&self, images: Var<'_, F>) {
        let (found, [height, width]) = (images.shape(), self.config.image);
        let channels = self.config.channels;
        assert!(
            found.len() == 4 && found[1..] == [channels, height, width],
            "VisionTransformer: images {found:?}, they must be [items, {channels}, {height}, {width}]"
        );
    }
}

impl<F: Real> Layer<F> for VisionTransformer<F> {}
