//! A causal language model with a Lipschitz constant that is chosen.

mod almost_orthogonal;
mod block;
mod ensemble;
mod language;

pub use almost_orthogonal::AlmostOrthogonal;
pub use block::CertifiedBlock;
pub use ensemble::CertifiedEnsemble;
pub use language::{CertifiedConfig, CertifiedLanguageModel};
