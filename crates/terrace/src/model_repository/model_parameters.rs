//! The parameters of HugeCTR's backend in a `config.pbtxt`; all are texts.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use terrace_kernels::Combiner;
use terrace_server::kserve::ModelConfig;

/// `None`: not given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelParameters {
    /// The network's file.
    pub config: Option<String>,
    pub dense_file: Option<String>,
    pub sparse_files: Vec<String>,
    pub slots: Option<usize>,
    pub dense_features: Option<usize>,
    pub vector_size: Option<usize>,
    pub label_dim: Option<usize>,
    pub has_long_keys: Option<bool>,
    pub gpu_cache: Option<bool>,
    pub gpu_cache_share: Option<f64>,
    pub hit_rate_threshold: Option<f64>,
    pub refresh_interval: Option<f64>,
    pub refresh_delay: Option<f64>,
    pub mixed_precision: Option<bool>,
    pub freeze_sparse: Option<bool>,
    /// Of the rows of a slot's keys, over which an ONNX file computes.
    pub combiner: Option<Combiner>,
    /// Names that say nothing here.
    pub unknown: BTreeSet<String>,
}

impl ModelParameters {
    pub fn read(config: &ModelConfig) -> Result<Self> {
        let mut read = ModelParameters::default();
        for (name, parameter) in &config.parameters {
            let text = parameter.string_value.trim();
            match name.as_str() {
                "config" => read.config = Some(text.to_owned()),
                "dense_file" => read.dense_file = Some(text.to_owned()),
                "sparse_files" => read.sparse_files = list(text),
                "slots" => read.slots = Some(whole(name, text)?),
                "des_feature_num" => read.dense_features = Some(whole(name, text)?),
                "embedding_vector_size" => read.vector_size = whole(name, text).ok(),
                "label_dim" => read.label_dim = Some(whole(name, text)?),
                "embeddingkey_long_type" => read.has_long_keys = Some(flag(name, text)?),
                "gpucache" => read.gpu_cache = Some(flag(name, text)?),
                "gpucacheper" => read.gpu_cache_share = Some(share(name, text)?),
                "hit_rate_threshold" => read.hit_rate_threshold = Some(number(name, text)?),
                "refresh_interval" => read.refresh_interval = Some(number(name, text)?),
                "refresh_delay" => read.refresh_delay = Some(number(name, text)?),
                "mixed_precision" => read.mixed_precision = Some(flag(name, text)?),
                "combiner" => read.combiner = Some(combiner(name, text)?),
                "freeze_sparse" => read.freeze_sparse = Some(flag(name, text)?),
                // What buffers were sized by; requests are checked against the network.
                "cat_feature_num" | "max_nnz" => drop(whole(name, text)?),
                _ => drop(read.unknown.insert(name.clone())),
            }
        }
        Ok(read)
    }
}

/// `["a", "b"]`, `a;b`, or one path.
fn list(text: &str) -> Vec<String> {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    let parts = inner.split([',', ';']).map(|part| part.trim().trim_matches('"').to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

fn whole(name: &str, text: &str) -> Result<usize> {
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) => bail!("parameter {name:?} is {text:?}; it is a whole number"),
    }
}

fn flag(name: &str, text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => bail!("parameter {name:?} is {text:?}; it is \"true\" or \"false\""),
    }
}

fn combiner(name: &str, text: &str) -> Result<Combiner> {
    match text.to_ascii_lowercase().as_str() {
        "sum" => Ok(Combiner::Sum),
        "mean" => Ok(Combiner::Mean),
        _ => bail!("parameter {name:?} is {text:?}; it is \"sum\" or \"mean\""),
    }
}

fn number(name: &str, text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => bail!("parameter {name:?} is {text:?}; it is a number from 0 on"),
    }
}

fn share(name: &str, text: &str) -> Result<f64> {
    match number(name, text)? {
        share if share > 0.0 && share <= 1.0 => Ok(share),
        _ => bail!("parameter {name:?} is {text:?}; it is above 0 and up to 1"),
    }
}

#[cfg(test)]
mod tests {
    use terrace_server::kserve::read_model_config;

    use super::*;

    fn read(text: &str) -> Result<ModelParameters> {
        ModelParameters::read(&read_model_config(text).expect("it is read"))
    }

    /// As the document prints them, commas and all.
    #[test]
    fn the_backends_parameters_are_read() {
        let parameters = read(
            "parameters [ { key: \"gpucache\" value: { string_value: \"true\" } }, \
             { key: \"gpucacheper\" value: { string_value: \"0.5\" } }, \
             { key: \"slots\" value: { string_value: \"26\" } }, \
             { key: \"sparse_files\" value: { string_value: \"[\\\"a\\\", \\\"b\\\"]\" } }, \
             { key: \"mine\" value: { string_value: \"x\" } } ]",
        );
        let wanted = ModelParameters {
            gpu_cache: Some(true),
            gpu_cache_share: Some(0.5),
            slots: Some(26),
            sparse_files: vec!["a".to_owned(), "b".to_owned()],
            unknown: BTreeSet::from(["mine".to_owned()]),
            ..ModelParameters::default()
        };
        assert_eq!(parameters.expect("they are right"), wanted);
    }

    #[test]
    fn what_is_no_number_or_flag_is_named() {
        for (name, text) in [
            ("slots", "many"),
            ("gpucache", "yes"),
            ("gpucacheper", "1.5"),
            ("refresh_interval", "-1"),
            ("combiner", "max"),
            ("label_dim", ""),
        ] {
            let text =
                format!("parameters {{ key: \"{name}\" value {{ string_value: \"{text}\" }} }}");
            let error = read(&text).expect_err("it is wrong").to_string();
            assert!(error.contains(&format!("{name:?}")), "{error}");
        }
    }
}
