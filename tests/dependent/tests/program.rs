//! The program of this crate trains under the profile of its tests.

use std::process::Command;

#[test]
fn it_trains() {
    let output = Command::new(env!("CARGO_BIN_EXE_dependent")).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let accuracy = printed.split("test accuracy ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(accuracy.unwrap().parse::<f64>().unwrap() > 70.0, "{printed}");
}
