//! Policies against the original's runs: the reference of a fixed batch over all of them, and what
//! is served over those that hold no defect and no quantiser.

use std::sync::Arc;

use terrace_cache::golden::Letters;
use terrace_cache::policy::{
    ArgValue, KvCacheOptions, KvCacheSpec, Policies, PolicyArgs, SlotTable, TableShape,
};
use terrace_cache::reference::{
    AttentionShape, BatchCall, BatchShape, BatchStep, ChunkRows, FixedBatchCache, SequenceCache,
};
use terrace_testkit::GoldenKv;

/// What another order of summation may change in numbers, and what it may decide otherwise.
const NUMBER_SLACK: f32 = 2e-6;
const DECISION_SLACK: f32 = 1e-5;

#[test]
fn golden_runs_of_a_fixed_batch() {
    let inputs = GoldenKv::of_kind("policy_inputs");
    for run in GoldenKv::of_kind("policy_run") {
        let input = input_of(&run, &inputs);
        let steps = fixed_batch_steps(&run, input);
        println!("golden kv: {} ok, {steps} steps", run.name);
    }
}

#[test]
fn golden_runs_as_they_are_served() {
    let inputs = GoldenKv::of_kind("policy_inputs");
    let mut ran = 0;
    for run in GoldenKv::of_kind("policy_run") {
        let has = |argument: &str| run.about["cache_kwargs"].get(argument).is_some();
        let differs = has("grace_period")
            || !run.text("cache_name").ends_with("-default")
            || run.text("cache_name").starts_with("smart")
            || run.text("cache_name").starts_with("h2o-orig");
        if !differs {
            served_rows(&run, input_of(&run, &inputs));
            ran += 1;
        }
    }
    assert!(ran > 0, "no run can be served as it is");
}

fn fixed_batch_steps(run: &GoldenKv, input: &GoldenKv) -> usize {
    let shape = batch_shape(run);
    let mut cache = FixedBatchCache::new(&spec(run, shape.head_dim, Some("keys_values")), shape)
        .expect("a cache");
    let mut replayed = Vec::new();
    let mut start = 0;
    for (i, tokens) in run.counts("chunk_sizes").into_iter().enumerate() {
        let call = Slices::of(input, start, tokens);
        let selection = cache.selection();
        let step = cache.step(&call.call()).unwrap_or_else(|error| panic!("{}: {error}", run.name));
        if !same_decisions(run, i, &step, selection.as_deref()) {
            println!("golden kv: {} decides otherwise by less than 1e-5 in step {i}", run.name);
            return i;
        }
        check_step(run, i, start, &cache, &step);
        replayed.push((start, step.slots));
        start += tokens;
        if run.about["requantize_after_every_step"] == true {
            cache.requantise();
        }
    }
    if run.has("final.keys") {
        let rows = cache.rows();
        near(run, "final.keys", &rows[0], run.f32("final.keys"));
        near(run, "final.values", &rows[1], run.f32("final.values"));
    }
    check_replay(run, &replayed, shape);
    replayed.len()
}

/// Whether the step chose the slots of the original's; it may not only where scores are close.
fn same_decisions(run: &GoldenKv, i: usize, step: &BatchStep, before: Option<&[f32]>) -> bool {
    let name = format!("step{i:03}.write_slots");
    if !run.has(&name) {
        return true;
    }
    let want: Vec<u32> = run.i32(&name).iter().map(|slot| *slot as u32).collect();
    if want == step.slots {
        return true;
    }
    let selection = before.expect("a policy with scores");
    let heads = run.count("batch_size") * run.count("n_query_groups");
    let (slots, tokens) = (selection.len() / heads, want.len() / heads);
    for (at, (got, want)) in step.slots.iter().zip(&want).enumerate() {
        let score = |slot: u32| selection[at / tokens * slots + slot as usize];
        let gap = (score(*got) - score(*want)).abs();
        assert!(gap < DECISION_SLACK, "{} {name}: slot {got}, wanted {want}", run.name);
    }
    false
}

fn check_step(run: &GoldenKv, i: usize, start: usize, cache: &FixedBatchCache, step: &BatchStep) {
    let name = |what: &str| format!("step{i:03}.{what}");
    assert_eq!(cache.positions(), run.i32(&name("token_pos")), "{} step {i}", run.name);
    let (rows, tokens) = (run.count("batch_size"), run.counts("chunk_sizes")[i]);
    let width = run.shape("attn_output")[2];
    let all_tokens = run.shape("attn_output")[1];
    for row in 0..rows {
        let want = &run.f32("attn_output")[(row * all_tokens + start) * width..][..tokens * width];
        near(run, &name("attn_output"), &step.out[row * tokens * width..][..tokens * width], want);
    }
    let check = |what: &str, got: Option<Vec<f32>>| {
        if run.has(&name(what)) {
            near(run, &name(what), &got.expect("a policy with scores"), run.f32(&name(what)));
        }
    };
    check("attn_weights", Some(step.weights.clone()));
    check("scores", cache.scores());
    let heads = rows * run.count("n_query_groups");
    if run.has(&name("selection_scores")) {
        // Of the slots outside the ring.
        let want = run.f32(&name("selection_scores"));
        let selection = cache.selection().expect("a policy with scores");
        let of_heads = selection.chunks_exact(selection.len() / heads);
        let got: Vec<f32> =
            of_heads.flat_map(|head| &head[..want.len() / heads]).copied().collect();
        near(run, &name("selection_scores"), &got, want);
    }
    let [norms, errors] = cache.extras().map_or([None, None], |extras| extras.map(Some));
    check("v_norm", norms);
    check("q_errors", errors);
    check_ranges(run, i, cache);
}

fn check_ranges(run: &GoldenKv, i: usize, cache: &FixedBatchCache) {
    let Some(steps) = run.about["protected_after_each_step"].as_array() else { return };
    for (row, (kept, _)) in cache.ranges().into_iter().enumerate() {
        let number = |key: &str| steps[i][key][row].as_u64().map(|slot| slot as usize);
        let want = number("start").zip(number("end"));
        assert_eq!(kept, want, "{} step {i}: what stays of row {row}", run.name);
    }
}

/// replay.slots holds the slots of every token that came when the cache was full.
fn check_replay(run: &GoldenKv, steps: &[(usize, Vec<u32>)], shape: BatchShape) {
    if !run.has("replay.slots") {
        return;
    }
    let heads = shape.rows * shape.kv_heads;
    let mut got = vec![Vec::new(); heads];
    for (start, slots) in steps {
        let tokens = slots.len() / heads;
        for (head, slots) in slots.chunks_exact(tokens).enumerate() {
            let beyond = shape.slots.saturating_sub(*start).min(tokens);
            got[head].extend(slots[beyond..].iter().map(|slot| *slot as i32));
        }
    }
    assert_eq!(got.concat(), run.i32("replay.slots"), "{}: replay", run.name);
}

/// Each row of a run as a sequence of its own, with nothing protected that the original does not.
fn served_rows(run: &GoldenKv, input: &GoldenKv) {
    let shape = batch_shape(run);
    let spec = spec(run, shape.head_dim, None);
    for row in 0..shape.rows {
        let table = SlotTable::new(
            Arc::clone(&spec.policy),
            spec.rule(shape.slots).expect("a rule"),
            TableShape { kv_heads: shape.kv_heads, slots: shape.slots },
        );
        let attention = AttentionShape {
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            key_dim: shape.head_dim,
            value_dim: shape.head_dim,
            scale: shape.scale,
            window: None,
            soft_cap: None,
        };
        let formats = [spec.keys, spec.values];
        let table = table.expect("a table");
        let mut cache = SequenceCache::new(table, attention, formats, Vec::new());
        served_row(run, input, row, &mut cache);
    }
}

fn served_row(run: &GoldenKv, input: &GoldenKv, row: usize, cache: &mut SequenceCache) {
    let mut start = 0;
    let of_row = |numbers: &[f32]| {
        let each = numbers.len() / run.count("batch_size");
        numbers[row * each..(row + 1) * each].to_vec()
    };
    for (i, tokens) in run.counts("chunk_sizes").into_iter().enumerate() {
        let slices = Slices::of(input, start, tokens);
        let [query, keys, values] =
            [&slices.query, &slices.keys, &slices.values].map(|x| of_row(x));
        let chunk = ChunkRows { tokens, query: &query, keys: &keys, values: &values };
        cache.step(chunk).unwrap_or_else(|error| panic!("{}: {error}", run.name));
        cache.table().check();
        let want = run.i32(&format!("step{i:03}.token_pos"));
        let want = &want[row * want.len() / run.count("batch_size")..];
        let heads = 0..cache.table().shape().kv_heads;
        let got: Vec<i32> =
            heads.clone().flat_map(|head| cache.table().positions(head)).copied().collect();
        let close = run.about["min_score_gap"].as_f64().is_some_and(|gap| gap < 1e-5);
        if got[..] != want[..got.len()] && close {
            println!("golden kv: {} row {row} decides otherwise in step {i}", run.name);
            return;
        }
        assert_eq!(got, want[..got.len()], "{} row {row} step {i}", run.name);
        let name = format!("step{i:03}.scores");
        if run.has(&name) {
            let scores: Vec<f32> =
                heads.flat_map(|head| cache.table().scores(head)).copied().collect();
            near(run, &name, &scores, &of_row(run.f32(&name)));
        }
        start += tokens;
    }
}

fn batch_shape(run: &GoldenKv) -> BatchShape {
    BatchShape {
        rows: run.count("batch_size"),
        heads: run.count("n_head"),
        kv_heads: run.count("n_query_groups"),
        head_dim: run.count("head_size"),
        slots: run.count("cache_length"),
        scale: run.number("sdpa_scale") as f32,
    }
}

/// The run's cache.
pub fn spec(run: &GoldenKv, head_dim: usize, compat: Option<&str>) -> KvCacheSpec {
    let mut args: Vec<(String, ArgValue)> = Vec::new();
    let mut add = |key: &str, value: &serde_json::Value| {
        if !value.is_null() {
            let word = value.as_str().map_or(value.to_string(), str::to_owned);
            args.push((key.to_owned(), ArgValue::parse(&word)));
        }
    };
    for key in [
        "end_initial_regex",
        "include_end_string",
        "max_initial_fraction",
        "range_is_prefix",
        "pad_id",
    ] {
        add(key, &run.about[key]);
    }
    for (key, value) in run.about["cache_kwargs"].as_object().into_iter().flatten() {
        add(key, value);
    }
    let scored =
        run.text("cache_name").starts_with("h2o") || run.text("cache_name").starts_with('q');
    if compat.is_none() && scored {
        add("init_grace_tokens", &0.into());
        if !run.text("cache_name").starts_with("h2o-orig") {
            let kwargs = &run.about["cache_kwargs"];
            add("grace_period", kwargs.get("grace_period").unwrap_or(&0.into()));
            add("normalize_scores", kwargs.get("normalize_scores").unwrap_or(&false.into()));
        }
    }
    let options = KvCacheOptions {
        name: run.text("cache_name").to_owned(),
        cache_length: vec![run.count("cache_length")],
        chunk_size: 1,
        randomize_chunk_sizes: false,
        cache_kwargs: PolicyArgs::new(args),
        compat: compat.map(str::to_owned),
    };
    KvCacheSpec::new(&options, &Policies::built_in(), &[[head_dim; 2]])
        .unwrap_or_else(|error| panic!("{}: {error}", run.name))
}

fn input_of<'a>(run: &GoldenKv, inputs: &'a [GoldenKv]) -> &'a GoldenKv {
    let file = run.text("inputs");
    inputs.iter().find(|input| input.text("file") == file).expect("the run's inputs")
}

/// A call's part of the inputs.
struct Slices {
    tokens: usize,
    query: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    ids: Vec<u32>,
}

impl Slices {
    fn of(input: &GoldenKv, start: usize, tokens: usize) -> Slices {
        let rows = |name: &str| -> Vec<f32> {
            let [.., all, dim] = input.shape(name)[..] else { panic!("{name} has rows") };
            let heads = input.f32(name).chunks_exact(all * dim);
            heads.flat_map(|head| &head[start * dim..(start + tokens) * dim]).copied().collect()
        };
        let all = input.shape("token_idx")[1];
        let ids = input.i32("token_idx").chunks_exact(all);
        Slices {
            tokens,
            query: rows("query"),
            keys: rows("key"),
            values: rows("value"),
            ids: ids.flat_map(|ids| &ids[start..start + tokens]).map(|id| *id as u32).collect(),
        }
    }

    fn call(&self) -> BatchCall<'_> {
        BatchCall {
            tokens: self.tokens,
            query: &self.query,
            keys: &self.keys,
            values: &self.values,
            ids: &self.ids,
            text: Some(&Letters),
        }
    }
}

#[track_caller]
fn near(run: &GoldenKv, what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{} {what}: how many", run.name);
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let slack = NUMBER_SLACK * want.abs().max(1.0);
        assert!((got - want).abs() <= slack, "{} {what}[{i}]: {got}, wanted {want}", run.name);
    }
}
