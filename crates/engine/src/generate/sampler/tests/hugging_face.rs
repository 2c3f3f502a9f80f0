//! Agreement with the processors of Hugging Face's transformers, alone and in its order.
//!
//! `tools/golden/logits_processors.py` wrote the scores.

use serde::Deserialize;
use terrace_kernels::sampling::{Chooser, Pick, max};

use super::super::{RowContext, process};
use super::{NONE, SamplingParams, TokenCounts, TokenId, sampled};

#[derive(Deserialize)]
struct Golden {
    rows: Vec<Row>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Row {
    logits: Vec<f32>,
    prompt: Vec<TokenId>,
    output: Vec<TokenId>,
}

#[derive(Deserialize)]
struct Case {
    row: usize,
    options: Options,
    /// `None` is -inf.
    scores: Vec<Option<f32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    logit_bias: Vec<(TokenId, f32)>,
    repetition_penalty: Option<f32>,
    no_repeat_ngram_size: usize,
    min_new_tokens: usize,
    stop_ids: Vec<TokenId>,
    forced_eos: Option<TokenId>,
    max_new_tokens: usize,
    temperature: Option<f32>,
    top_k: usize,
    top_p: Option<f32>,
    min_p: f32,
}

#[test]
fn scores_agree_with_hugging_face() {
    let path = "../../testdata/sampler/logits_processors.json";
    let text = std::fs::read_to_string(path).expect("the golden file is in the repository");
    let golden: Golden = serde_json::from_str(&text).expect("the golden file has this shape");
    assert!(!golden.cases.is_empty());
    for case in &golden.cases {
        let got = final_scores(&golden.rows[case.row], &case.options);
        // Ours are relative to the best score.
        let want: Vec<f32> = case.scores.iter().map(|score| score.unwrap_or(NONE)).collect();
        let best = max(&want);
        assert_eq!(got.len(), want.len());
        for (id, (&got, &want)) in got.iter().zip(&want).enumerate() {
            let want = want - best;
            let near = got == want || (got - want).abs() < 1e-5 * want.abs().max(1.0);
            let Case { row, options, .. } = case;
            assert!(near, "row {row}, {options:?}: token {id} has {got}, not {want}");
        }
    }
}

/// The scores a token would be drawn from, -inf where it cannot be.
fn final_scores(row: &Row, options: &Options) -> Vec<f32> {
    let params = SamplingParams {
        logit_bias: options.logit_bias.clone(),
        repetition_penalty: options.repetition_penalty.unwrap_or(1.0),
        no_repeat_ngram_size: options.no_repeat_ngram_size,
        min_new_tokens: options.min_new_tokens,
        stop_ids: options.stop_ids.clone(),
        forced_eos: options.forced_eos,
        max_new_tokens: options.max_new_tokens,
        temperature: options.temperature.unwrap_or(1.0),
        top_k: options.top_k,
        top_p: options.top_p.unwrap_or(1.0),
        min_p: options.min_p,
        ..sampled()
    };
    let Row { prompt, output, .. } = row;
    let context =
        RowContext { params: &params, prompt, output, choice: 0, position: 0, allowed: None };
    let mut logits = row.logits.clone();
    process(&mut logits, &context, &mut TokenCounts::default());
    let best = max(&logits);

    let Pick::Draw(draw) = context.pick() else { unreachable!("these draw") };
    let mut scores = vec![NONE; logits.len()];
    let mut chooser = Chooser::default();
    let narrowed = chooser.narrow(&mut logits, best, &draw);
    for (place, &score) in narrowed.scores.iter().enumerate() {
        let id = narrowed.ids.get(place).map_or(place, |&id| id as usize);
        scores[id] = score;
    }
    scores
}
