//! Buffers that are used again.

use emmy::kernels::draw;
use emmy::tensor::memory::{copy, recycle, scratch, zeros};

// Lengths that no other test uses, since all threads share the pools. What the pools hold in all, and how
// long, is tested in processes of their own, in `tests/data/memory.rs`.

#[test]
fn what_is_given_back_comes_again() {
    let x = scratch::<f32>(4177).into_tensor(&[4177]);
    let place = x.as_ptr();
    let shared = x.clone();
    recycle(x);
    let other = zeros::<f32>(4177);
    assert_ne!(other.as_ptr(), place, "it was still shared");
    recycle(shared);
    let again = zeros::<f32>(4177);
    assert_eq!(again.as_ptr(), place);
    assert!(again.iter().all(|&x| x == 0.0));
    // Another type has another pool.
    drop(again);
    let double = zeros::<f64>(4177);
    assert_ne!(double.as_ptr().cast(), place);
    assert_eq!(scratch::<f32>(4177).as_ptr(), place);
}

#[test]
fn what_another_thread_took_comes_again_here() {
    let mut places = Vec::new();
    for _ in 0..100 {
        let thread = std::thread::spawn(|| scratch::<f32>(4283));
        places.push(thread.join().expect("it takes a buffer").as_ptr());
    }
    assert!(places.iter().all(|place| *place == places[0]));
    assert_eq!(scratch::<f32>(4283).as_ptr(), places[0]);
}

#[test]
fn buffers_begin_at_a_cache_line() {
    for len in [2048, 5000, 100_001] {
        for buffer in [zeros::<f64>(len), scratch(len), copy(&vec![1.0; len])] {
            assert_eq!(buffer.as_ptr().align_offset(64), 0);
            assert_eq!(buffer.len(), len);
            let tensor = buffer.into_tensor(&[len, 1]);
            assert_eq!(tensor.as_ptr().align_offset(64), 0);
        }
    }
}

#[test]
fn drawn_tensors_begin_at_a_cache_line() {
    let mut rng = draw::rng(1);
    // Several at once: memory of the allocator begins there by chance, too.
    let drawn: Vec<_> = (0..8)
        .map(|_| draw::normal::<f32>(&[3, 1111], 1.0, &mut rng))
        .collect();
    for x in &drawn {
        assert_eq!(x.as_ptr().align_offset(64), 0);
    }
}

#[test]
#[should_panic(expected = "into_array: shape [3, 2] holds 6 elements, 5 were given")]
fn a_shape_must_fit() {
    zeros::<f32>(5).into_tensor(&[3, 2]);
}
