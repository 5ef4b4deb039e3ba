//! Windows of a text.

use emmy::data::text::{Window, Windows};
use emmy::init;

#[test]
fn windows_cover_each_symbol_but_the_first_once() {
    for length in 1..30 {
        for context in 1..length + 2 {
            for stride in 1..=context {
                let windows = Window::covering(length, context, stride);
                let predicted = windows
                    .iter()
                    .flat_map(|w| w.start + w.seen..w.start + w.length);
                assert!(predicted.eq(0..length - 1), "{length}, {context}, {stride}");
                for (k, w) in windows.iter().enumerate() {
                    assert_eq!(w.start, k * stride);
                    assert_eq!(w.seen, if k == 0 { 0 } else { context - stride });
                    assert!(w.length == context || k + 1 == windows.len());
                }
            }
        }
    }
}

#[test]
fn windows_side_by_side_are_spread_evenly() {
    for length in 2..40 {
        for context in 1..length {
            let windows = Windows::new("text", length, context).unwrap();
            let whole = windows.spread(usize::MAX);
            let covering = Window::covering(length, context, context);
            let covering = covering.iter().filter(|w| w.length == context);
            assert!(covering.map(|w| w.start).eq(whole.iter().copied()));
            assert_eq!(whole.len(), windows.side_by_side());
            for count in 1..=whole.len() {
                let some = windows.spread(count);
                assert_eq!(some.len(), count);
                assert!(some.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(some.iter().all(|start| whole.contains(start)));
            }
        }
    }
    // An even spread of 3 among 9.
    let windows = Windows::new("text", 91, 10).unwrap();
    assert_eq!(windows.spread(3), [0, 30, 60]);
}

#[test]
fn random_starts_reach_both_ends_and_follow_from_the_seed() {
    let windows = Windows::new("text", 15, 5).unwrap();
    let draw = |seed| windows.random(1000, &mut init::rng(seed));
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    // 1000 draws of 10 places have a standard deviation of 9.5 around 100.
    let mut counts = [0; 10];
    draw(3).into_iter().for_each(|start| counts[start] += 1);
    assert!(counts.iter().all(|n| (50..150).contains(n)), "{counts:?}");
}

#[test]
fn a_window_has_a_successor() {
    assert!(Windows::new("text", 5, 4).is_ok());
    let error = Windows::new("test text", 5, 5).unwrap_err().to_string();
    let expected = "test text: expected more characters than the context, 5, found 5";
    assert_eq!(error, expected);
    assert!(Windows::new("text", 5, 0).is_err());
}
