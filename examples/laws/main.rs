mod audit;
mod layers;
mod models;
use models::{MODELS, Options};
use emmy::symmetry::Search;
fn main(){
  let names: Vec<String> = std::env::args().skip(1).collect();
  let eps = names.first().and_then(|s| s.parse::<f64>().ok());
  for m in MODELS { if eps.is_none() && !names.is_empty() && !names.iter().any(|n| n==m.name) { continue; }
   let t=std::time::Instant::now();
   let net=(m.make)(Options{eps: eps.unwrap_or(0.0),seed:0});
   if std::env::var("DBG").is_ok() { net.dbg(); continue; }
   let d=net.discover(&Search::default());
   println!("{}: D {} {:?} declared {} found {} upper {:?} gens {} sym {} broken {:?} missing {:?} delta {:.1e} gap {:.1e} {:.1e}  {:?}", m.name, d.parameters,d.ansatz,d.declared,d.found,d.upper,d.generators.len(),d.symmetries.len(),d.broken,d.missing,d.max_delta,d.gap.0,d.gap.1,t.elapsed());
   for f in &d.discovered { println!("      {}", f.formula); }
  }
}
