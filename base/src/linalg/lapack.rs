//! The same routines through LAPACK. LAPACK converges for every finite matrix unless the library is faulty,
//! so a failure is a panic.

use ndarray::{Array1, Array2, ArrayView2, s};
use ndarray_linalg::{Eigh, JobSvd, QR, SVDDC, UPLO};

pub(super) fn qr(a: ArrayView2<'_, f64>) -> (Array2<f64>, Array2<f64>) {
    let k = a.nrows().min(a.ncols());
    if k == 0 {
        return (Array2::zeros((a.nrows(), 0)), Array2::zeros((0, a.ncols())));
    }
    let (q, r) = a.to_owned().qr().unwrap_or_else(|e| panic!("qr: {e}"));
    (q.slice_move(s![.., ..k]), r.slice_move(s![..k, ..]))
}

pub(super) fn svd(a: ArrayView2<'_, f64>) -> (Array2<f64>, Array1<f64>, Array2<f64>) {
    if a.is_empty() {
        return (
            Array2::zeros((a.nrows(), 0)),
            Array1::zeros(0),
            Array2::zeros((0, a.ncols())),
        );
    }
    let (u, s, vt) = (a.to_owned().svddc(JobSvd::Some)).unwrap_or_else(|e| panic!("svd: {e}"));
    (u.expect("asked for"), s, vt.expect("asked for"))
}

pub(super) fn eigh(a: ArrayView2<'_, f64>) -> (Array1<f64>, Array2<f64>) {
    if a.is_empty() {
        return (Array1::zeros(0), Array2::zeros((0, 0)));
    }
    (a.to_owned().eigh(UPLO::Lower)).unwrap_or_else(|e| panic!("eigh: {e}"))
}
