//! emmy
