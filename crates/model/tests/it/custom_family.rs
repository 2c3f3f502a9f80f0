//! A model family that lives outside Terrace.

use std::sync::Arc;

use terrace_model::{
    DecoderSpec, DecoderTensors, Error, Families, Family, ModelConfig, TensorNames, Weights,
    standard_spec, standard_tensors,
};

/// Llama under another name, with other names for its width and its norms.
struct Renamed;

impl Family for Renamed {
    fn model_types(&self) -> &[&str] {
        &["renamed"]
    }

    fn spec(&self, config: &ModelConfig, source: &Weights) -> Result<DecoderSpec, Error> {
        let mut spec = standard_spec(config, source)?;
        spec.norm_eps = config.number("epsilon")? as f32;
        Ok(spec)
    }

    fn tensors(
        &self,
        _config: &ModelConfig,
        spec: &DecoderSpec,
        source: &Weights,
    ) -> Result<DecoderTensors, Error> {
        let names = TensorNames { ffn_norm: "input_layernorm", ..TensorNames::HUGGING_FACE };
        standard_tensors(spec, source, &names)
    }
}

#[test]
fn a_family_from_outside_builds_a_decoder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/llm/llama_plain");
    let weights = Weights::open_safetensors(folder.as_ref()).expect("weights");
    let text = std::fs::read_to_string(format!("{folder}/config.json")).expect("a configuration");
    let text = text.replace("\"model_type\": \"llama\"", "\"model_type\": \"renamed\"");
    let config = ModelConfig::from_json(&text.replace('{', "{\"epsilon\": 0.25,")).expect("JSON");

    let unknown = Families::known().read(&config, &weights).err().expect("an unknown family");
    assert!(matches!(&unknown, Error::Unsupported(what) if what.contains("renamed")), "{unknown}");
    let families = Families::known().with(Arc::new(Renamed));
    let (spec, _) = families.read(&config, &weights).expect("the family is known now");
    assert_eq!(spec.norm_eps, 0.25);
}
