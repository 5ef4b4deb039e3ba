//! PyTorch's values, first and second derivatives.

use crate::reference::{Derivatives, Stored, check_derivatives, close, fill, read};
use emmy::nn::{
    Activation, AttentionConfig, BlockConfig, Module, MultiHeadAttention, Pass, TransformerBlock,
};
use emmy::ops::attention::Mask;
use emmy::tensor::tensor;
use emmy::{Tape, Var, init};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Case {
    kind: String,
    config: serde_json::Value,
    parameters: BTreeMap<String, Stored>,
    inputs: Vec<Stored>,
    value: Stored,
    #[serde(flatten)]
    derivatives: Derivatives,
}

impl Case {
    fn size(&self, name: &str) -> usize {
        self.config[name].as_u64().expect(name) as usize
    }

    fn flag(&self, name: &str) -> bool {
        self.config[name].as_bool().expect(name)
    }

    fn mask(&self) -> Mask {
        let given = &self.config["mask"];
        match given.as_str() {
            Some("none") => Mask::none(),
            Some("causal") => Mask::causal(),
            Some("lengths") => Mask::lengths(&[3, 1]),
            _ => {
                let allowed = given["allowed"].as_array().expect("a mask");
                let allowed = allowed.iter().map(|x| x == 1).collect();
                Mask::allowed(tensor(&[3, 3], allowed))
            }
        }
    }

    /// Value and derivatives by the inputs, then by the parameters in the order of their names.
    fn check<M: Module<f64>>(
        &self,
        mut module: M,
        forward: impl for<'t> Fn(&M, &Pass<'t, '_, f64>, &[Var<'t, f64>]) -> Var<'t, f64>,
    ) {
        fill(&mut module, &self.parameters);
        let tape = Tape::new();
        let pass = Pass::train(&tape, &module, 0);
        let inputs: Vec<_> = self.inputs.iter().map(|x| tape.var(x.tensor())).collect();
        let y = forward(&module, &pass, &inputs);
        let what = format!("{} {}", self.kind, self.config);
        close(&y.value(), &self.value, &what);
        let names = module.parameters().into_iter().map(|p| p.name);
        let mut named: Vec<_> = names.zip(pass.vars().iter().copied()).collect();
        named.sort_by(|a, b| a.0.cmp(&b.0));
        let xs: Vec<_> = (inputs.into_iter())
            .chain(named.into_iter().map(|(_, var)| var))
            .collect();
        check_derivatives(y, &xs, &self.derivatives, &what);
    }
}

#[test]
fn layers_are_pytorchs() {
    let cases: Vec<Case> = read("attention.json");
    assert_eq!(cases.len(), 16);
    let rng = &mut init::rng(0);
    for case in cases {
        if case.kind == "attention" {
            let config = AttentionConfig {
                bias: case.flag("bias"),
                ..AttentionConfig::new(case.size("width"), case.size("heads"))
            };
            let layer = MultiHeadAttention::new(config, rng).unwrap();
            let mask = case.mask();
            case.check(layer, |layer, pass, x| {
                layer.cross(pass, x[0], x[x.len() - 1], &mask)
            });
            continue;
        }
        let sizes = [case.size("width"), case.size("heads"), case.size("hidden")];
        let [width, heads, hidden] = sizes;
        let mut config = match case.kind.as_str() {
            "encoder" => BlockConfig::pre_norm_encoder(width, heads, hidden),
            _ => BlockConfig::pre_norm_decoder(width, heads, hidden),
        };
        config = config.biased(case.flag("bias"));
        config.norm_first = case.flag("norm_first");
        if case.config["activation"] == "gelu" {
            config.feed_forward.activation = Activation::Gelu;
        }
        let block = TransformerBlock::new(config, rng).unwrap();
        case.check(block, |block, pass, x| match x {
            [x] => block.forward(pass, *x, &Mask::causal()),
            x => block.with_memory(pass, x[0], &Mask::causal(), x[1], &Mask::none()),
        });
    }
}
