//! Files of images.

use emmy::data::images::read_images;

fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("emmy-idx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn images(count: u32, pixels: &[u8]) -> Vec<u8> {
    let numbers = [2051, count, 2, 3].map(u32::to_be_bytes);
    [&numbers.concat()[..], pixels].concat()
}

#[test]
fn images_are_read_plain_and_compressed() {
    let pixels: Vec<u8> = (0..12).collect();
    let bytes = images(2, &pixels);
    let plain = read_images(&file("plain", &bytes)).unwrap();
    assert_eq!(plain, (2, 3, pixels));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, &bytes).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(read_images(&file("packed.gz", &packed)).unwrap(), plain);
    let cut = read_images(&file("cut.gz", &packed[..packed.len() - 9])).unwrap_err();
    assert!(
        cut.to_string().contains("expected a whole gzip file"),
        "{cut}"
    );
}

#[test]
fn damaged_files_are_refused_with_place_and_rule() {
    let error = |name: &str, bytes: &[u8]| read_images(&file(name, bytes)).unwrap_err().to_string();
    assert!(error("short", &[0, 0]).contains("byte 2: expected a header of 16 bytes"));
    assert!(error("magic", &[0; 16]).contains("expected the number 2051 of an idx file, found 0"));
    assert!(
        error("few", &images(2, &[0; 11]))
            .contains("expected 12 bytes behind the header, found 11")
    );
    assert!(error("many", &images(2, &[0; 13])).contains("found 13"));
    let mut flat = images(2, &[]);
    flat[11] = 0;
    assert!(error("flat", &flat).contains("byte 8: expected a side of 1 to 1024 pixels, found 0"));
    assert!(error("vast", &images(u32::MAX, &[])).contains("bytes behind the header, found 0"));
}
