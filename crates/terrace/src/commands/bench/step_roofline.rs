//! The roofline of a decode step: the time to read what must be read, at the memory's speed.
//!
//! Every step reads each weight once for all sequences, and each sequence's own keys and values.
//! Arithmetic, activations and the gaps between kernels are left out, so nothing runs below it.

use terrace_device::DType;
use terrace_engine::MemoryReport;
use terrace_model::DecoderSpec;

pub struct StepRoofline {
    bytes_per_second: f64,
    weight_bytes: f64,
    /// Of one sequence, whose cache may be selective.
    most_kv_bytes: f64,
    /// Of each group of layers: keys and values of one token, and how many tokens back it sees, if
    /// not all.
    groups: Vec<(f64, Option<usize>)>,
}

impl StepRoofline {
    pub fn new(gb_per_second: f64, spec: &DecoderSpec, memory: &MemoryReport) -> Self {
        let page_bytes = memory.kv_bytes as f64 / memory.kv_pages as f64;
        // Neither the size of blocks nor the type of numbers decides which layers are a group.
        let groups = spec.kv_groups(1, DType::F32).into_iter().zip(&memory.page_tokens);
        let groups = groups.map(|(group, tokens)| (page_bytes / *tokens as f64, group.window));
        StepRoofline {
            bytes_per_second: gb_per_second * 1e9,
            weight_bytes: memory.step_weight_bytes as f64,
            most_kv_bytes: memory
                .seq_pages
                .map_or(f64::INFINITY, |pages| pages as f64 * page_bytes),
            groups: groups.collect(),
        }
    }

    /// For `seqs` sequences of `tokens` each.
    pub fn step_ms(&self, seqs: usize, tokens: f64) -> f64 {
        let kv_bytes: f64 = self
            .groups
            .iter()
            .map(|(bytes, window)| bytes * window.map_or(tokens, |w| tokens.min(w as f64)))
            .sum();
        let bytes = self.weight_bytes + seqs as f64 * kv_bytes.min(self.most_kv_bytes);
        bytes / self.bytes_per_second * 1e3
    }
}

#[cfg(test)]
mod tests {
    use terrace_model::{AttentionSpec, KnownShape};

    use super::*;

    #[test]
    fn weights_are_read_once_and_keys_and_values_for_each_sequence() {
        let mut spec = KnownShape::find("llama3-8b").expect("a known shape").spec();
        let memory = MemoryReport {
            device: "a GPU".into(),
            weight_bytes: 16_060_522_496,
            step_weight_bytes: 15_009_849_344,
            kv_bytes: 100 * 16 * 131_072,
            kv_pages: 100,
            store_pages: 0,
            page_tokens: vec![16],
            seq_pages: None,
            longest_tokens: 0,
            scratch_bytes: 0,
            threads: 1,
        };
        let roofline = StepRoofline::new(4400.0, &spec, &memory);
        let near = |found: f64, want: f64| assert!((found - want).abs() < 0.005, "{found}, {want}");
        near(roofline.step_ms(1, 1088.0), 3.44);
        near(roofline.step_ms(64, 1088.0), 5.49);
        for layer in &mut spec.layers {
            let AttentionSpec::GroupedQuery(attention) = &mut layer.attention;
            attention.window = Some(544);
        }
        let windowed = StepRoofline::new(4400.0, &spec, &memory);
        near(windowed.step_ms(64, 1088.0), roofline.step_ms(64, 544.0));
        near(windowed.step_ms(64, 100.0), roofline.step_ms(64, 100.0));
        let bounded = MemoryReport { seq_pages: Some(34), ..memory };
        let bounded = StepRoofline::new(4400.0, &spec, &bounded);
        near(bounded.step_ms(64, 9000.0), roofline.step_ms(64, 544.0));
    }
}
