//! The choice of vectors by `EMMY_VECTORS`.

use emmy::kernels::{map, simd};
use std::process::Command;

/// Whether [`a_kernel_runs`] passes in a process with this value of `EMMY_VECTORS`, and what it prints.
fn with_vectors(name: &str) -> (bool, String) {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["vectors::a_kernel_runs", "--exact", "--nocapture"]);
    let done = again.env("EMMY_VECTORS", name).output().unwrap();
    let printed = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.success(), printed)
}

#[test]
fn a_kernel_runs() {
    assert_eq!(simd(|| 2 + 2), 4);
    let x = emmy::tensor::tensor(&[3], vec![1.0_f32, -2.0, 3.0]);
    let y = map::unary(&x, |x| x * x);
    assert_eq!(y.as_slice().unwrap(), [1.0, 4.0, 9.0]);
}

#[test]
fn another_name_is_refused() {
    let (passed, printed) = with_vectors("512");
    assert!(!passed);
    assert!(
        printed.contains("EMMY_VECTORS=512: expected 256 (on x86-64) or none"),
        "{printed}"
    );
}

#[test]
fn without_vectors_a_kernel_runs_or_names_the_feature() {
    let (passed, printed) = with_vectors("none");
    if cfg!(any(not(target_arch = "x86_64"), feature = "scalar")) {
        assert!(passed, "{printed}");
    } else {
        assert!(!passed);
        assert!(
            printed.contains("build with the feature `scalar`"),
            "{printed}"
        );
    }
}
