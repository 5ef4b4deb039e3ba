//! Tensors.

use emmy::tensor::{IntoTensor, Tensor, tensor};
use ndarray::array;

#[test]
fn numbers_in_any_form_become_a_tensor() {
    fn of<T: IntoTensor<f32>>(x: T) -> Tensor<f32> {
        x.into_tensor()
    }
    let vector = tensor(&[3], vec![1.0, 2.0, 3.0]);
    let numbers = [1.0, 2.0, 3.0];
    for x in [
        of(numbers),
        of::<&[f32; 3]>(&numbers),
        of(&numbers[..]),
        of(numbers.to_vec()),
        of(array![1.0, 2.0, 3.0]),
    ] {
        assert_eq!(x, vector);
    }
    let matrix = array![[1.0, 2.0], [3.0, 4.0]];
    let expected = tensor(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]);
    let shared = matrix.clone().into_shared();
    for x in [of(matrix.view()), of(&shared), of(matrix)] {
        assert_eq!(x, expected);
    }
    assert_eq!(of(&shared).as_ptr(), shared.as_ptr());
    assert_eq!(of(shared.clone()).as_ptr(), shared.as_ptr());
    // A view keeps its order.
    assert_eq!(of(shared.t()), tensor(&[2, 2], vec![1.0, 3.0, 2.0, 4.0]));
}
