//! Outputs that follow a grammar, through the whole engine: with every way to sample, in a batch,
//! preempted, cut short and cancelled.

use serde_json::{Value, json};
use terrace_engine::guidance::{Grammar, GrammarFault, GrammarRule};
use terrace_engine::text::{
    GenerationConfig, LanguageModel, Prompt, TextFinish, TextRequest, TextStream,
};
use terrace_engine::{Error, Failure, InferenceConfig, Precision};

use crate::tiny_model::tiny;

fn model(config: InferenceConfig) -> LanguageModel {
    let config = InferenceConfig { dtype: Precision::Fp32, threads: Some(2), ..config };
    LanguageModel::start(tiny(), &config, || {}).expect("an engine")
}

/// So little room that sequences preempt each other.
fn cramped() -> InferenceConfig {
    InferenceConfig { block_size: 4, kv_memory_bytes: Some(125_000), ..InferenceConfig::default() }
}

/// A list of a few words, some dozen bytes long.
fn words() -> GrammarRule {
    let word = json!({"enum": ["terrace", "rice", "water"]});
    GrammarRule::JsonSchema(json!({
        "type": "array", "items": word, "minItems": 3, "maxItems": 4,
        "x-guidance": {"whitespace_flexible": false},
    }))
}

fn request(prompt: &str, rule: GrammarRule, generation: GenerationConfig) -> TextRequest {
    let max_new_tokens = generation.max_new_tokens.or(Some(60));
    let generation = GenerationConfig { max_new_tokens, ..generation };
    TextRequest {
        grammar: Some(Grammar { option: "rule", rule }),
        ..TextRequest::new(Prompt::Text(prompt.into()), generation)
    }
}

/// The choices' texts and ends.
fn outputs(mut stream: TextStream, choices: usize) -> Vec<(String, TextFinish)> {
    let mut texts = vec![String::new(); choices];
    let mut ends = vec![None; choices];
    while let Some(event) = stream.next_blocking() {
        texts[event.choice].push_str(&event.text);
        ends[event.choice] = event.finish;
    }
    texts.into_iter().zip(ends).map(|(text, end)| (text, end.expect("an end"))).collect()
}

#[track_caller]
fn check_words(output: &(String, TextFinish)) {
    let list: Vec<String> = serde_json::from_str(&output.0).expect("a list of words");
    assert!((3..=4).contains(&list.len()), "{list:?}");
    assert!(matches!(output.1, TextFinish::StopToken(_)), "{output:?}");
}

fn ways_to_sample() -> Vec<GenerationConfig> {
    let drawn = |seed| GenerationConfig {
        do_sample: Some(true),
        temperature: Some(1.3),
        seed: Some(seed),
        ..GenerationConfig::default()
    };
    vec![
        GenerationConfig::default(),
        drawn(1),
        GenerationConfig { n: Some(6), ..drawn(2) },
        GenerationConfig { top_p: Some(0.7), min_p: Some(0.01), ..drawn(3) },
        GenerationConfig { repetition_penalty: Some(1.2), logprobs: Some(3), ..drawn(4) },
        GenerationConfig { frequency_penalty: Some(1.0), prompt_logprobs: Some(1), ..drawn(5) },
        GenerationConfig { min_new_tokens: Some(60), ..drawn(6) },
        GenerationConfig { no_repeat_ngram_size: Some(2), ..drawn(7) },
        GenerationConfig { forced_eos_token_id: Some(2), ..drawn(8) },
        // A list can neither begin nor end without these.
        GenerationConfig { bad_words: Some(vec!["[".into(), "]".into()]), ..drawn(9) },
        GenerationConfig { typical_p: Some(0.5), ..drawn(10) },
    ]
}

#[test]
fn every_way_to_sample_follows_the_grammar_alone_and_when_preempted() {
    let (ample, cramped) = (model(InferenceConfig::default()), model(cramped()));
    let ask = |model: &LanguageModel, way: &GenerationConfig| {
        model.submit(request("some words", words(), way.clone())).expect("it can be served")
    };
    let ways = ways_to_sample();
    let streams: Vec<_> = ways.iter().map(|way| ask(&cramped, way)).collect();
    for (way, stream) in ways.iter().zip(streams) {
        let choices = way.n.unwrap_or(1);
        let alone = outputs(ask(&ample, way), choices);
        alone.iter().for_each(check_words);
        assert_eq!(outputs(stream, choices), alone, "{way:?}");
    }
    assert!(0 < cramped.stats().preemptions, "the pool was not small enough to preempt anyone");
}

#[test]
fn other_requests_are_not_disturbed() {
    let model = model(InferenceConfig::default());
    let free = || {
        let generation = GenerationConfig { max_new_tokens: Some(30), ..Default::default() };
        model.submit(TextRequest::new("free", generation)).expect("it can be served")
    };
    let alone = outputs(free(), 1);
    let guided = model.submit(request("x", words(), GenerationConfig::default()));
    let beside = outputs(free(), 1);
    assert_eq!(alone, beside);
    check_words(&outputs(guided.expect("it can be served"), 1)[0]);
}

#[test]
fn the_length_limit_cuts_and_says_so() {
    let model = model(InferenceConfig::default());
    let generation = GenerationConfig { max_new_tokens: Some(5), ..Default::default() };
    let stream = model.submit(request("x", words(), generation)).expect("it can be served");
    let (text, end) = outputs(stream, 1).remove(0);
    assert_eq!(end, TextFinish::Length);
    assert!(["[\"terrace\"", "[\"rice\"", "[\"water\""].iter().any(|all| all.starts_with(&text)));
}

#[test]
fn what_cannot_be_followed_is_an_error() {
    let model = model(InferenceConfig::default());
    let refused = |request| model.submit(request).err().expect("a bad request").to_string();
    let bad = request("x", GrammarRule::Regex("(".into()), GenerationConfig::default());
    assert!(refused(bad).starts_with("rule cannot be followed: "));
    let endless = GenerationConfig { ignore_eos: Some(true), ..Default::default() };
    let error = model.submit(request("x", words(), endless)).err();
    assert!(matches!(error, Some(Error::BadOption { option: "ignore_eos", .. })));
    assert_eq!(model.stats().waiting, 0);
}

#[test]
fn a_grammar_that_grows_too_large_ends_its_output_alone() {
    let model = model(InferenceConfig::default());
    let many: String = (0..2100).map(|word| format!("/{word}/|")).collect();
    let large = GrammarRule::Lark(format!("start: {many} \"\""));
    let large = model.submit(request("x", large, GenerationConfig::default()));
    let small = model.submit(request("y", words(), GenerationConfig::default()));
    let (_, finish) = &outputs(large.expect("served"), 1)[0];
    assert_eq!(*finish, TextFinish::Failed(Failure::BadGrammar(GrammarFault::TokenItems)));
    check_words(&outputs(small.expect("served"), 1)[0]);
}

#[test]
fn a_cancelled_output_frees_its_pages() {
    let model = model(InferenceConfig::default());
    let endless = GrammarRule::Regex("[a-z]*".into());
    let generation = GenerationConfig { max_new_tokens: Some(200), ..Default::default() };
    let mut stream = model.submit(request("x", endless, generation)).expect("it can be served");
    stream.next_blocking().expect("a first piece");
    drop(stream);
    let rest = model.submit(request("y", words(), GenerationConfig::default()));
    let value: Value = serde_json::from_str(&outputs(rest.expect("served"), 1)[0].0).expect("JSON");
    assert!(value.is_array());
    model.shutdown(terrace_engine::Shutdown::Drain);
    assert_eq!(model.stats().pages_free, model.stats().pages_total);
}
