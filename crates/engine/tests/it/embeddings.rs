//! Embeddings against the original implementations: scored by the model's head, they must give the
//! logits that were written down for the prompt's last token.

use terrace_engine::{
    Engine, Error, Priority, Request, RequestId, RequestRetention, SamplingParams, Task, TokenEvent,
};
use terrace_kernels::{Matrix, WeightFormat};
use terrace_model::golden::GoldenModel;

use crate::fixture::{Fixture, SCHEDULER};
use crate::golden_engine::{SETTINGS, engine_for};

/// As the golden tests grant it to logits.
const TOLERANCE: f32 = 2e-3;

fn embed(prompt: &[u32]) -> Request {
    let (priority, cache_salt) = (Priority::default(), String::new());
    let (prompt, retention) = (prompt.to_vec(), RequestRetention::default());
    Request { prompt, task: Task::Embed, priority, cache_salt, cache: None, retention }
}

fn generate(prompt: &[u32]) -> Request {
    Request { task: Task::Generate(SamplingParams::greedy(3)), ..embed(prompt) }
}

/// What the engine reports about each embedding, with batch-mates that only generate.
fn embeddings(engine: &mut Engine, case: &GoldenModel) -> Vec<Vec<f32>> {
    let mut ids = Vec::new();
    for prompt in &case.prompts {
        ids.push(engine.submit(embed(&prompt.input_ids)).expect("it fits"));
        engine.submit(generate(&prompt.input_ids)).expect("it fits");
    }
    let mut events: Vec<(RequestId, TokenEvent)> = Vec::new();
    while !engine.is_idle() {
        events.extend(engine.step());
        engine.check();
    }
    let of = |id: &RequestId| {
        let mine = events.iter().filter(|(of, _)| of == id).map(|(_, event)| event);
        let is_cached = |event: &TokenEvent| matches!(event, TokenEvent::CachedPrompt { .. });
        let mine: Vec<_> = mine.filter(|event| !is_cached(event)).collect();
        let [TokenEvent::Embedding(embedding), TokenEvent::Finished { .. }] = &mine[..] else {
            panic!("one embedding and the end, not {mine:?}");
        };
        embedding.clone()
    };
    ids.iter().map(of).collect()
}

/// The logits of a hidden state, without any of the kernels.
fn scored(head: &Matrix, hidden: &[f32]) -> Vec<f32> {
    assert_eq!(head.format(), WeightFormat::F32);
    let score = |row: usize| {
        let weights = head.row(row).as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        weights.zip(hidden).map(|(weight, value)| weight * value).sum()
    };
    (0..head.rows()).map(score).collect()
}

#[test]
fn an_embedding_is_the_state_that_scores_the_next_token() {
    let mut folders = terrace_testkit::golden_cases("llm").into_iter();
    let (_, folder) = folders.find(|(name, _)| name == "llama_plain").expect("a case");
    let case = GoldenModel::open(&folder, &folder.join("config.json")).expect("a sound case");
    let head = case.tensors.head.as_ref().unwrap_or(&case.tensors.embed);
    for setting in SETTINGS {
        let mut engine = engine_for(&case, setting);
        // Twice, so that the second round finds the first one's pages by content.
        for round in 0..2 {
            let found = embeddings(&mut engine, &case);
            for (prompt, embedding) in case.prompts.iter().zip(found) {
                let wanted = prompt.logits.last().expect("a prompt is not empty");
                for (found, wanted) in scored(head, &embedding).iter().zip(wanted) {
                    let place = format!("{setting:?} round {round}: {found} {wanted}");
                    assert!((found - wanted).abs() <= TOLERANCE, "{place}");
                }
            }
        }
    }
}

#[test]
fn a_device_that_gives_none_refuses() {
    let mut engine = Fixture::new(8, SCHEDULER).engine;
    assert!(matches!(engine.submit(embed(&[1])), Err(Error::NoEmbeddings)));
}
