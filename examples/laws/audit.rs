//! What a search finds in a model.

use crate::models::Net;
use emmy::nn::discover;
use emmy::symmetry::{Discovery, Search};

/// A small model, whatever its type.
pub trait Small {
    /// Its laws.
    fn discover(&self, search: &Search) -> Discovery;
    fn dbg(&self);
}

impl<N: Net> Small for N {
 fn dbg(&self) { dbg(self) }
    fn discover(&self, search: &Search) -> Discovery {
        discover(self, search, |pass, seed| self.forward(pass, seed))
    }
}

pub fn dbg<N: Net>(net: &N) {
    use emmy::symmetry::{Function, Layout};
    let layout = Layout::new(net.parameters().into_iter().map(|(n, t)| (n, t.shape().to_vec())));
    let f = Function::new(layout, |tape, vars, seed| net.forward(&emmy::nn::Pass::bound(tape, net, vars), seed));
    for k in 0..f.layout().names().len() {
        let mut all = vec![];
        for s in 0..20u64 {
            let th = f.draw(&mut emmy::init::rng(s));
            let g = f.gradient(&th, s);
            let mut start = 0; for j in 0..k { start += f.layout().shapes()[j].iter().product::<usize>(); }
            let n: usize = f.layout().shapes()[k].iter().product();
            let tot: f64 = g.iter().map(|x| x*x).sum::<f64>().sqrt();
            all.push(g[start..start+n].iter().map(|x| x*x).sum::<f64>().sqrt()/tot);
        }
        all.sort_by(f64::total_cmp);
        println!("{} {:.1e} {:.1e} {:.1e}", f.layout().names()[k], all[0], all[10], all[19]);
    }
}
