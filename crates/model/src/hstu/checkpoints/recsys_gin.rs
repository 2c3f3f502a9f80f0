//! The gin file that describes a model of recsys-examples.

use std::fmt::Write;

use crate::gin::GinValue;
use crate::hstu::hstu_config::{HeadActivation, HstuConfig, HstuTask};
use crate::hstu::recsys_args::{DatasetArgs, EmbeddingArgs, TableKind};

/// Heads' outputs and whether they have biases.
pub struct HeadShape {
    pub arch: Vec<usize>,
    pub has_bias: bool,
}

/// What a gin file says beside the configuration.
pub struct RecsysGin<'a> {
    pub config: &'a HstuConfig,
    pub position_rows: usize,
    pub head: Option<HeadShape>,
    /// A data set that the original knows, or the tables one by one.
    pub dataset: Option<&'a DatasetArgs>,
    pub tables: &'a [EmbeddingArgs],
    /// Items of a history.
    pub history: usize,
}

struct Lines(String);

impl Lines {
    fn add(&mut self, key: &str, value: GinValue) {
        writeln!(self.0, "{key} = {value}").expect("a text takes all");
    }

    fn count(&mut self, key: &str, value: usize) {
        self.add(key, GinValue::Int(value as i64));
    }

    fn text(&mut self, key: &str, value: &str) {
        self.add(key, GinValue::Text(value.to_owned()));
    }

    fn texts(&mut self, key: &str, values: &[String]) {
        let values = values.iter().map(|value| GinValue::Text(value.clone()));
        self.add(key, GinValue::List(values.collect()));
    }
}

impl RecsysGin<'_> {
    pub fn text(&self) -> String {
        let mut lines = Lines(String::new());
        match self.dataset {
            Some(dataset) => {
                lines.text("DatasetArgs.dataset_name", &dataset.dataset_name);
                lines.count("DatasetArgs.max_history_seqlen", self.history);
                lines.count("DatasetArgs.max_num_candidates", self.candidates());
            }
            None => self.add_features(&mut lines),
        }
        lines.0.push('\n');
        self.add_network(&mut lines);
        self.add_head(&mut lines);
        lines.0
    }

    fn candidates(&self) -> usize {
        match self.config.task {
            HstuTask::Ranking => self.config.max_candidates,
            HstuTask::Retrieval => 0,
        }
    }

    fn add_network(&self, lines: &mut Lines) {
        let (config, spec) = (self.config, self.config.layer_spec());
        for (param, count) in [
            ("num_layers", config.num_layers),
            ("hidden_size", spec.hidden),
            ("num_attention_heads", spec.heads),
            ("kv_channels", spec.key_dim),
            ("num_position_buckets", self.position_rows),
            ("scaling_seqlen", config.scaling_seqlen),
        ] {
            lines.count(&format!("NetworkArgs.{param}"), count);
        }
        lines.add("NetworkArgs.norm_epsilon", GinValue::Float(short_f64(spec.eps)));
        lines.add("NetworkArgs.disable_contextual_mask", GinValue::Bool(true));
        for (param, dim) in [
            ("item_embedding_dim", config.item_embedding_dim),
            ("contextual_embedding_dim", config.contextual_embedding_dim),
        ] {
            if let Some(dim) = dim {
                lines.count(&format!("NetworkArgs.{param}"), dim);
            }
        }
    }

    fn add_head(&self, lines: &mut Lines) {
        let Some(HeadShape { arch, has_bias }) = &self.head else { return };
        let arch = arch.iter().map(|outputs| GinValue::Int(*outputs as i64)).collect();
        lines.0.push('\n');
        lines.add("RankingArgs.prediction_head_arch", GinValue::List(arch));
        lines.add("RankingArgs.prediction_head_bias", GinValue::Bool(*has_bias));
        lines.count("RankingArgs.num_tasks", self.config.num_tasks);
        let activation = match self.config.prediction_head_activation {
            HeadActivation::Relu => "relu",
            HeadActivation::Gelu => "gelu",
        };
        lines.text("RankingArgs.prediction_head_act_type", activation);
    }

    /// Features and tables, which the original reads from such a file for made up data.
    fn add_features(&self, lines: &mut Lines) {
        let config = self.config;
        let called = |scope: &str, name: &str| GinValue::Reference {
            scope: scope.to_owned(),
            name: name.to_owned(),
            is_called: true,
        };
        let mut sequence = vec![config.item_feature.clone()];
        sequence.extend(config.action_feature.clone());
        let mut features = vec![("sequence", sequence, self.history)];
        if !config.contextual_features.is_empty() {
            features.push(("context", config.contextual_features.clone(), 1));
        }
        for (scope, names, length) in &features {
            lines.texts(&format!("{scope}/FeatureArgs.feature_names"), names);
            lines.count(&format!("{scope}/FeatureArgs.max_sequence_length"), *length);
        }
        let mut tables = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            let scope = format!("table{at}");
            let class = match table.kind {
                TableKind::Dynamic(_) => "DynamicEmbeddingArgs",
                _ => "EmbeddingArgs",
            };
            let key = |param: &str| format!("{scope}/{class}.{param}");
            lines.texts(&key("feature_names"), &table.feature_names);
            lines.text(&key("table_name"), &table.table_name);
            lines.count(&key("item_vocab_size_or_capacity"), table.item_vocab_size_or_capacity);
            if !matches!(table.kind, TableKind::Dynamic(_)) {
                lines.text(&key("sharding_type"), "data_parallel");
            }
            tables.push(called(&scope, class));
        }
        let features = features.iter().map(|(scope, ..)| called(scope, "FeatureArgs")).collect();
        lines.add("BenchmarkDatasetArgs.feature_args", GinValue::List(features));
        lines.add("BenchmarkDatasetArgs.embedding_args", GinValue::List(tables));
        lines.text("BenchmarkDatasetArgs.item_feature_name", &config.item_feature);
        let key = "BenchmarkDatasetArgs.contextual_feature_names";
        lines.texts(key, &config.contextual_features);
        if let Some(action) = &config.action_feature {
            lines.text("BenchmarkDatasetArgs.action_feature_name", action);
        }
        lines.count("BenchmarkDatasetArgs.max_num_candidates", self.candidates());
    }
}

/// The number that the same digits are.
fn short_f64(number: f32) -> f64 {
    number.to_string().parse().expect("digits of a number")
}
