//! Whatever the schema and whatever the model thinks: the output is JSON and fits the schema.
//!
//! Schemas are random, logits are random, and a small reader of schemas says whether they fit; it
//! shares nothing with the one that guides.

use serde_json::{Value, json};
use terrace_engine::guidance::{Grammar, GrammarRule, Guide, GuideMaker};
use terrace_engine::{RowContext, Sampler, SamplingParams, TokenId};
use terrace_model::{SpecialTokens, Tokenizer};
use terrace_testkit::Rng;

use crate::tiny_model::tiny;

const VOCAB: usize = 320;
/// Longer than any output for the schemas here becomes.
const MAX_TOKENS: usize = 20_000;

#[test]
fn random_outputs_fit_random_schemas() {
    let tokenizer = tiny().text.tokenizer;
    let maker = GuideMaker::new(&tokenizer, tokenizer.eos(), VOCAB, None).expect("it has an end");
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let schema = random_schema(&mut rng, 3);
        let rule = GrammarRule::JsonSchema(schema.clone());
        let guide = maker.guide(&Grammar { option: "schema", rule }).expect("a good schema");
        for run in 0..2 {
            let text = random_output(&tokenizer, &guide, &mut rng, run);
            let value: Value = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{error}: {text:?} for {schema}"));
            assert!(fits(&value, &schema), "{text} does not fit {schema}");
        }
    }
}

fn random_output(tokenizer: &Tokenizer, guide: &Guide, rng: &mut Rng, run: u64) -> String {
    let params = SamplingParams {
        do_sample: true,
        temperature: 1.5,
        top_k: if run == 0 { 0 } else { 20 },
        frequency_penalty: 0.5,
        // Both would forbid what the grammar asks for, and must give way.
        min_new_tokens: 5,
        no_repeat_ngram_size: 3,
        stop_ids: tokenizer.eos().to_vec(),
        seed: rng.number(),
        ..SamplingParams::greedy(MAX_TOKENS)
    };
    let (state, mut sampler) = (guide.start(), Sampler::new());
    let mut output: Vec<TokenId> = Vec::new();
    while output.len() < MAX_TOKENS {
        let allowed = state.allowed_after(&output).expect("a small grammar");
        let mut logits: Vec<f32> = (0..VOCAB).map(|_| rng.below(1000) as f32 / 250.0).collect();
        let row = RowContext {
            params: &params,
            prompt: &[],
            output: &output,
            choice: 0,
            position: output.len() as u64,
            allowed: Some(&allowed),
        };
        let token = sampler.sample(&mut logits, &row).expect("something is allowed").id;
        if tokenizer.eos().contains(&token) {
            return tokenizer.decode(&output, SpecialTokens::Keep).expect("known ids");
        }
        output.push(token);
    }
    panic!("no end after {MAX_TOKENS} tokens")
}

fn random_schema(rng: &mut Rng, depth: usize) -> Value {
    let kinds = if depth == 0 { 6 } else { 9 };
    match rng.below(kinds) {
        0 => json!({"type": "boolean"}),
        1 => json!({"type": ["null", "integer"]}),
        2 => {
            let low = rng.below(2000) as i64 - 1000;
            json!({"type": "integer", "minimum": low, "maximum": low + rng.below(500) as i64})
        }
        // Without bounds it may be larger than any reader of JSON takes.
        3 => json!({"type": "number", "minimum": -2.5, "maximum": 1e6}),
        4 => {
            let low = rng.below(4);
            json!({"type": "string", "minLength": low, "maxLength": low + rng.below(6)})
        }
        5 => json!({"enum": ["é\"\\", 7, null, -0.5, "a"]}),
        6 => {
            let low = rng.below(3);
            let items = random_schema(rng, depth - 1);
            let most = low + rng.below(3);
            json!({"type": "array", "items": items, "minItems": low, "maxItems": most})
        }
        7 => json!({"anyOf": [random_schema(rng, depth - 1), random_schema(rng, depth - 1)]}),
        _ => random_object(rng, depth),
    }
}

fn random_object(rng: &mut Rng, depth: usize) -> Value {
    let names = &["a", "b c", "\"quoted\"", "日本"][..rng.below(5)];
    let mut properties = serde_json::Map::new();
    for &name in names {
        properties.insert(name.to_owned(), random_schema(rng, depth - 1));
    }
    let required: Vec<_> = names.iter().filter(|_| rng.below(2) == 0).collect();
    json!({"type": "object", "properties": properties, "required": required,
        "additionalProperties": false})
}

/// The keywords that `random_schema` uses, read as their specification says.
fn fits(value: &Value, schema: &Value) -> bool {
    let within = |count: usize, low: &str, high: &str| {
        let bound = |name: &str, none: u64| schema[name].as_u64().unwrap_or(none) as usize;
        (bound(low, 0)..=bound(high, u32::MAX.into())).contains(&count)
    };
    let is_kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|kind| is_of_kind(value, kind)),
        Value::Null => true,
        kind => is_of_kind(value, kind),
    };
    is_kind
        && schema["enum"].as_array().is_none_or(|values| values.contains(value))
        && schema["anyOf"].as_array().is_none_or(|any| any.iter().any(|one| fits(value, one)))
        && match value {
            Value::String(text) => within(text.chars().count(), "minLength", "maxLength"),
            Value::Array(items) => {
                within(items.len(), "minItems", "maxItems")
                    && items.iter().all(|item| fits(item, &schema["items"]))
            }
            Value::Number(number) => {
                let number = number.as_f64().expect("a number");
                schema["minimum"].as_f64().is_none_or(|low| low <= number)
                    && schema["maximum"].as_f64().is_none_or(|high| number <= high)
            }
            Value::Object(fields) => {
                let known = schema["properties"].as_object();
                let required = schema["required"].as_array();
                fields.iter().all(|(name, value)| {
                    known.is_none_or(|known| known.get(name).is_some_and(|one| fits(value, one)))
                }) && required.is_none_or(|names| {
                    names.iter().all(|name| fields.contains_key(name.as_str().expect("a name")))
                })
            }
            Value::Null | Value::Bool(_) => true,
        }
}

fn is_of_kind(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("a kind") {
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}"),
    }
}
