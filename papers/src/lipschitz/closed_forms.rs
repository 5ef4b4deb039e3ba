//! Bounds of a chain of ReLUs that others compute in closed form, to rounding: none of them is proven here.

use emmy::linalg::{Lp, eigh};
use emmy::ndarray::{Array2, Axis};

fn norm(a: &Array2<f64>) -> f64 {
    Lp::Two.matrix(a.view()).get()
}

/// ECLipsE-Fast (Xu and Sivaranjani, "ECLipsE", NeurIPS 2024): with X₀ = I and Y_k = W_k X_{k−1}⁻¹ W_kᵀ,
/// Λ_k = 2 / ‖Y_k‖ I and X_k = Λ_k − ¼ Λ_k Y_k Λ_k; L² = ‖Y_l‖.
pub fn eclipse_fast(weights: &[Array2<f64>]) -> f64 {
    let (last, hidden) = weights.split_last().expect("a chain");
    let through = |w: &Array2<f64>, inverse: &Option<Array2<f64>>| match inverse {
        Some(inverse) => w.dot(inverse).dot(&w.t()),
        None => w.dot(&w.t()),
    };
    let mut inverse = None;
    for w in hidden {
        let (values, vectors) = eigh(through(w, &inverse).view());
        let largest = values.iter().fold(0.0_f64, |m, x| m.max(*x));
        let l = 2.0 / largest;
        let parts = values.mapv(|y| 1.0 / (l - 0.25 * l * l * y));
        inverse = Some((&vectors * &parts.insert_axis(Axis(0))).dot(&vectors.t()));
    }
    norm(&through(last, &inverse)).sqrt()
}

/// LipLT (Fazlyab et al., "Certified Robustness via Dynamic Margin Maximization and Improved Lipschitz
/// Regularization", NeurIPS 2023): with relu(z) = ½ z + ½ |z|, the constants m_k of the arguments of layer k
/// are m_k = ‖W_k … W_1‖ / 2ᵏ⁻¹ + Σ_{j<k} ½ ‖W_k … W_{j+1}‖ m_j / 2ᵏ⁻¹⁻ʲ.
pub fn lip_lt(weights: &[Array2<f64>]) -> f64 {
    let mut constants: Vec<f64> = Vec::new();
    for k in 0..weights.len() {
        let mut product = weights[k].clone();
        let mut sum = 0.0;
        for j in (0..k).rev() {
            let half = 0.5_f64.powi((k - j) as i32);
            sum += half * norm(&product) * constants[j];
            product = product.dot(&weights[j]);
        }
        constants.push(sum + norm(&product) * 0.5_f64.powi(k as i32));
    }
    constants[weights.len() - 1]
}
