//! A golden run's cache in our words: its rules, and which of its rows are sequences.

use terrace_device::DType;
use terrace_kernels::SlotLayout;

use super::case_kinds::PolicyRun;
use super::error::GoldenError;
use super::quirks::Quirks;
use crate::policy::{
    ArgValue, KvCacheOptions, KvCacheSpec, Opening, Policies, PolicyArgs, PolicyError, Rule,
    SlotFormat, SlotShape, TokenText,
};
use terrace_golden::{GoldenCase, GoldenTensors};

pub(super) struct PolicyCase {
    /// Rows of the batch that are sequences, with their rules.
    pub rows: Vec<(usize, Rule)>,
    pub quirks: Quirks,
    pub layout: SlotLayout,
    /// The same with rows in the run's own buffer, where that is quantised slot by slot of a head.
    pub quantised: Option<SlotLayout>,
    /// What no op does, and why.
    pub left_out: Vec<String>,
}

const BEHIND_PADDING: &str = "what stays of it lies behind padding, which a sequence has none of";
const TWO_ROUNDS: &str = "a chunk is longer than what may leave, and goes round twice";

impl PolicyCase {
    pub fn new(case: &GoldenCase<PolicyRun>, inputs: &GoldenTensors) -> Result<Self, GoldenError> {
        let run = &case.about;
        let policy = |source| GoldenError::Policy { case: case.name.clone(), source };
        let spec = spec(run).map_err(policy)?;
        let rule = spec.rule(run.cache_length).map_err(policy)?;
        let shape = SlotShape {
            kv_heads: run.n_query_groups,
            key_dim: run.head_size,
            value_dim: run.head_size,
            plain: DType::F32,
        };
        // The original computes on rows as they are; how it stores them is a quirk.
        let layout = rule.slot_layout(1, &shape, [SlotFormat::Plain; 2]).map_err(policy)?;
        let quirks = Quirks::of(run, &spec, &rule);
        let formats = [spec.keys, spec.values];
        let is_quantised = formats.iter().all(|format| *format != SlotFormat::Plain);
        let quantised = (is_quantised && quirks.stores_rows_apart())
            .then(|| rule.slot_layout(1, &shape, formats).map_err(policy))
            .transpose()?;
        let (mut rows, mut left_out) = (Vec::new(), Vec::new());
        if let Some(why) = quirks.cannot_be_played(run) {
            left_out.push(format!("{}: {why}", case.name));
            return Ok(PolicyCase { rows, quirks, layout, quantised, left_out });
        }
        let [_, tokens] = inputs.dims("token_idx")?;
        if run.chunk_sizes.contains(&0) || tokens < run.chunk_sizes.iter().sum() {
            let what = format!("{tokens} tokens for chunks of {:?}", run.chunk_sizes);
            return Err(inputs.malformed(what).into());
        }
        let ids = inputs.i32("token_idx", [run.batch_size, tokens])?;
        for (row, ids) in ids.chunks_exact(tokens).enumerate() {
            let first = run.chunk_sizes.first().copied().unwrap_or(0);
            let first: Vec<u32> = ids.iter().take(first).map(|id| *id as u32).collect();
            let opening = Opening { tokens: &first, text: Some(&Letters) };
            let rule = rule.for_sequence(&opening).map_err(policy)?;
            let longest = run.chunk_sizes.iter().skip(1).copied().max().unwrap_or(0);
            let two_rounds =
                matches!(rule, Rule::Recent(_)) && rule.evictable(run.cache_length) < longest;
            match (protected_from_the_start(run, row), two_rounds) {
                (false, _) => left_out.push(format!("{} row {row}: {BEHIND_PADDING}", case.name)),
                (_, true) => left_out.push(format!("{} row {row}: {TWO_ROUNDS}", case.name)),
                _ => rows.push((row, rule)),
            }
        }
        Ok(PolicyCase { rows, quirks, layout, quantised, left_out })
    }
}

/// Whether the slots that stay begin with the first: of `smart-lastrec`.
fn protected_from_the_start(run: &PolicyRun, row: usize) -> bool {
    run.protected_after_each_step.iter().all(|slots| slots.start.get(row) == Some(&Some(0)))
}

/// The run's cache, with the original's rules: nothing is protected that it does not protect.
fn spec(run: &PolicyRun) -> Result<KvCacheSpec, PolicyError> {
    let smart = [
        "end_initial_regex",
        "include_end_string",
        "max_initial_fraction",
        "range_is_prefix",
        "pad_id",
    ];
    let of_smart = run.others.iter().filter(|(key, _)| smart.contains(&key.as_str()));
    let args = of_smart.chain(&run.cache_kwargs).filter(|(_, value)| !value.is_null());
    let args = args.map(|(key, value)| {
        let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (key.clone(), ArgValue::parse(&word))
    });
    let options = KvCacheOptions {
        name: run.cache_name.clone(),
        cache_length: vec![run.cache_length],
        chunk_size: 1,
        randomize_chunk_sizes: false,
        cache_kwargs: PolicyArgs::new(args),
        compat: Some("keys_values".into()),
    };
    KvCacheSpec::new(&options, &Policies::built_in(), &[[run.head_size; 2]])
}

/// The tokenizer of the golden texts: id 1 is `a`, and so on; 0 is padding and has no text.
pub struct Letters;

impl TokenText for Letters {
    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().filter(|id| **id > 0).filter_map(|id| char::from_u32(96 + id)).collect()
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        text.chars().map(|letter| letter as u32 - 96).collect()
    }
}
