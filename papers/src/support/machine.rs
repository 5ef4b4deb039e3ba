//! The date and the machine of a run.

/// The date in UTC, as 2026-11-21.
pub fn today() -> String {
    time::OffsetDateTime::now_utc().date().to_string()
}

/// The number of processors.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The kind of machine: processors, architecture, width of its vectors.
pub fn kind() -> String {
    #[cfg(target_arch = "x86_64")]
    let vectors = match () {
        () if is_x86_feature_detected!("avx512f") => "AVX-512",
        () if is_x86_feature_detected!("avx2") => "AVX2",
        () => "SSE2",
    };
    #[cfg(not(target_arch = "x86_64"))]
    let vectors = "vectors unknown";
    format!("{} × {}, {vectors}", processors(), std::env::consts::ARCH)
}
