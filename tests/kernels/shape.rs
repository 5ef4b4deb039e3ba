//! Shapes that broadcast.

use emmy::tensor::{contiguous, tensor};

#[test]
fn a_transpose_is_copied_element_by_element() {
    for (n, m) in [(1, 1), (0, 3), (16, 16), (17, 40), (5, 100), (33, 7)] {
        let x = tensor(&[n, m], (0..n * m).map(|k| k as f64).collect());
        let turned = contiguous(&x.t().to_shared());
        assert_eq!(turned.shape(), [m, n]);
        let expected: Vec<f64> = x.t().iter().copied().collect();
        assert_eq!(turned.as_slice().unwrap(), expected);
    }
}
