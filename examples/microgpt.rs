//! microgpt: a whole language model, its training and its samples, on one page. It learns names.
//!
//! `cargo run --example microgpt [FILE]` reads a file with one name per line; without FILE,
//! `names.txt` beside this file. Like Karpathy's program with this name, it has one layer of width 16, four
//! heads, a context of 16 letters, and makes 1000 steps of one name each.

use emmy::autodiff::grad;
use emmy::nn::Sampling;
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::optim::{Adam, Algorithm, Optimizer};
use emmy::rand::seq::SliceRandom;
use emmy::{Error, Tape, Tensor, Var, data, init};
use std::collections::BTreeSet;
use std::time::Instant;

const WIDTH: usize = 16;
const HEADS: usize = 4;
const CONTEXT: usize = 16;
const STEPS: usize = 1000;

/// The logits of the letter after each letter, `[n, letters]`, from the parameters p.
fn gpt<'t>(p: &[Var<'t, f32>], letters: &[usize]) -> Var<'t, f32> {
    let n = letters.len();
    let norm = |x: Var<'t, f32>| x.rms_norm(None, 1e-5);
    let x = p[0].index_select(0, letters.to_vec()) + p[1].slice(0, 0..n); // letter and place, [n, 16]
    let x = norm(x);

    // Attention: each letter gathers information from the letters before it.
    let seen = norm(x);
    let heads = |w: Var<'t, f32>| seen.linear(w).reshape(&[n, HEADS, WIDTH / HEADS]);
    let attention = DenseAttention {
        scale: (WIDTH as f64 / HEADS as f64).sqrt().recip(),
        mask: Mask::causal(),
        dropout: None,
    };
    let y = attention.attend(Qkv::new(heads(p[2]), heads(p[3]), heads(p[4]))); // [n, 4, 4]
    let x = x + y.reshape(&[n, WIDTH]).linear(p[5]);

    // Feed-forward layer: each letter is mapped separately.
    let x = x + norm(x).linear(p[6]).relu().linear(p[7]); // 16 → 64 → 16
    x.linear(p[8])
}

fn main() -> emmy::Result<()> {
    // The data: names between two line ends, and the sorted list of their letters; the number of a letter is
    // its place there.
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let text = match &arguments[..] {
        [] => include_str!("names.txt").to_owned(),
        [help] if help == "--help" || help == "-h" => {
            println!("microgpt [FILE]: learns the names in a file, one per line, and invents ten.");
            return Ok(());
        }
        [path] if !path.to_string_lossy().starts_with('-') => data::text::read(path.as_ref())?,
        [option] | [_, option, ..] => {
            let option = option.to_string_lossy();
            return Err(Error::invalid("arguments", "[FILE]", option));
        }
    };
    let names = text.lines().map(|line| format!("\n{}\n", line.trim()));
    let mut names: Vec<String> = names.filter(|name| name.len() > 2).collect();
    if names.is_empty() {
        return Err(Error::invalid("names", "a name per line", "none"));
    }
    let letters: BTreeSet<char> = names.concat().chars().collect();
    let letters = Vec::from_iter(letters);
    let number = |c| letters.binary_search(&c).expect("a letter of the names");
    let end = number('\n');
    let rng = &mut init::rng(42);
    names.shuffle(rng);

    // The parameters: vectors of letters and places, queries, keys, values, output, up, down, head.
    let (table, places, map) = ([letters.len(), WIDTH], [CONTEXT, WIDTH], [WIDTH; 2]);
    let (up, down) = ([4 * WIDTH, WIDTH], [WIDTH, 4 * WIDTH]);
    let shapes = [table, places, map, map, map, map, up, down, table];
    let draw = |shape: &[usize; 2]| init::normal(shape, 0.08, rng);
    let mut parameters: Vec<Tensor<f32>> = shapes.iter().map(draw).collect();
    let count: usize = parameters.iter().map(|p| p.len()).sum();
    println!(
        "{} names, {count} parameters; {STEPS} steps take less than a second",
        names.len()
    );

    // Training. A step is one name: the loss, its gradient, an update with a rate that falls to 0.
    let (beta1, beta2, eps) = (0.85, 0.99, 1e-8);
    let mut adam = Optimizer::new(Algorithm::Adam(Adam { beta1, beta2, eps }));
    let (start, mut sum) = (Instant::now(), 0.0);
    for step in 0..STEPS {
        let name = names[step % names.len()].chars();
        let name: Vec<usize> = name.map(number).collect();
        let n = CONTEXT.min(name.len() - 1);
        let tape = Tape::new();
        let p: Vec<_> = parameters.iter().map(|p| tape.var(p.clone())).collect();
        let loss = gpt(&p, &name[..n]).cross_entropy(&name[1..=n], None);
        sum += loss.item();
        let gradients = grad(loss, &p);
        drop(tape); // The tape shares the parameters; without it they are updated in place.
        let lr = 0.01 * (1.0 - step as f64 / STEPS as f64);
        adam.step(&mut parameters, &gradients, lr);
        if (step + 1) % 100 == 0 {
            println!("step {:4}: loss {:.3}", step + 1, sum / 100.0);
            sum = 0.0;
        }
    }
    println!("{STEPS} steps in {:.3} s", start.elapsed().as_secs_f64());

    // Inference: new names, letter by letter, until the end is drawn.
    let tape = Tape::new();
    let constant = |p: &Tensor<f32>| tape.constant(p.clone());
    let p: Vec<_> = parameters.iter().map(constant).collect();
    let (temperature, top_k, seed) = (0.5, None, 42);
    let how = Sampling {
        temperature,
        top_k,
        seed,
    };
    for _ in 0..10 {
        let mut name = vec![end];
        while name.len() <= CONTEXT {
            let last = gpt(&p, &name).slice(0, name.len() - 1..name.len());
            match how.draw(last.value(), rng) {
                letter if letter == end => break,
                letter => name.push(letter),
            }
        }
        let name: String = name[1..].iter().map(|&k| letters[k]).collect();
        println!("{name}");
    }
    Ok(())
}
