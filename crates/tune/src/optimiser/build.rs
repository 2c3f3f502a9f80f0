//! The optimiser that options ask for.

use super::adadelta::Adadelta;
use super::adam::Adam;
use super::adamax::Adamax;
use super::optimiser::Optimiser;
use super::options::{OptimiserKind, OptimiserOptions};
use super::rmsprop::RmsProp;
use super::sgd::Sgd;
use crate::error::Error;
use crate::model::ParameterInfo;

impl OptimiserOptions {
    /// An optimiser of these arrays.
    pub fn build(&self, parameters: &[ParameterInfo]) -> Result<Box<dyn Optimiser>, Error> {
        self.check()?;
        let counts: Vec<usize> =
            parameters.iter().map(|info| info.shape.iter().product()).collect();
        Ok(match self.kind {
            OptimiserKind::Adam | OptimiserKind::AdamW => Box::new(Adam::new(self, &counts)),
            OptimiserKind::Adamax => Box::new(Adamax::new(self, &counts)),
            OptimiserKind::Adadelta => Box::new(Adadelta::new(self, &counts)),
            OptimiserKind::RmsProp => Box::new(RmsProp::new(self, &counts)),
            OptimiserKind::Sgd => Box::new(Sgd::new(self, &counts)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use terrace_golden::GoldenTensors;
    use terrace_testkit::golden_set;

    use super::*;
    use crate::optimiser::OptimiserStep;

    fn options(about: &Value) -> OptimiserOptions {
        let number = |key: &str| about[key].as_f64();
        let name = about["name"].as_str().expect("a name");
        let mut options = OptimiserOptions::new(OptimiserKind::named(name).expect("a known name"));
        options.learning_rate = number("learning_rate");
        options.weight_decay = number("weight_decay");
        options.eps = number("eps");
        options.momentum = number("momentum");
        options.dampening = number("dampening");
        options.adam_betas =
            about["adam_betas"].as_array().map(|b| [0, 1].map(|i| b[i].as_f64().expect("a beta")));
        options.adadelta_rho = number("adadelta_rho");
        options.rmsprop_alpha = number("rmspprop_alpha");
        options
    }

    #[test]
    fn steps_are_pytorchs() {
        let folder = golden_set("tune");
        let text = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
        let about: Value = serde_json::from_str(&text).unwrap();
        let tensors = GoldenTensors::read(&folder.join("optimisers.safetensors")).unwrap();
        let start = tensors.f32s("start").unwrap();
        let shape = tensors.shape("start").unwrap().to_vec();
        let info = ParameterInfo { name: "start".into(), shape };
        for (name, about_one) in about["optimisers"].as_object().expect("optimisers") {
            let options = options(about_one);
            let mut optimiser = options.build(std::slice::from_ref(&info)).unwrap();
            let mut values = start.to_vec();
            for number in 0..about["steps"].as_u64().expect("steps") {
                let gradient = tensors.f32s(&format!("gradient.{number}")).unwrap();
                let learning_rate = options.learning_rate();
                let step = OptimiserStep { number: number + 1, learning_rate };
                optimiser.change(0, &mut values, gradient, step);
                let want = tensors.f32s(&format!("{name}.{number}")).unwrap();
                for (got, want) in values.iter().zip(want) {
                    let far = (got - want).abs() / want.abs().max(1.0);
                    assert!(far <= 1e-6, "{name}, step {number}: {got} is not {want}");
                }
            }
        }
    }

    #[test]
    fn an_option_that_cannot_act_is_refused() {
        let mut options = OptimiserOptions::new(OptimiserKind::AdamW);
        options.momentum = Some(0.9);
        let error = options.build(&[]).err().expect("refused").to_string();
        assert!(error.contains("optimizer.momentum") && error.contains("AdamW"), "{error}");
        let mut options = OptimiserOptions::new(OptimiserKind::Sgd);
        options.learning_rate = Some(-1.0);
        assert!(options.build(&[]).is_err());
    }
}
