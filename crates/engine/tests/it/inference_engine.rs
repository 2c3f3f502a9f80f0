//! The library's front: lists of prompts, single steps, async outputs, stop strings, presets.

use std::sync::{Arc, Mutex};

use terrace_engine::text::{GenerationConfig, Prompt, TextFinish, TextRequest};
use terrace_engine::{
    AsyncInferenceEngine, DeviceChoice, Error, InferenceConfig, InferenceEngine, Lengths,
    Precision, RequestedKvCache,
};
use terrace_model::Tokenizer;
use terrace_testkit::TinyModel;

use crate::tiny_model::{config, finish, tiny};

fn engine() -> InferenceEngine {
    InferenceEngine::new(tiny(), &config()).expect("an engine")
}

fn tokens(max_new_tokens: usize) -> GenerationConfig {
    let ignore_eos = Some(true);
    let max_new_tokens = Some(max_new_tokens);
    GenerationConfig { max_new_tokens, ignore_eos, ..GenerationConfig::default() }
}

#[test]
fn a_list_is_generated_in_order_and_like_each_prompt_alone() {
    let prompts = ["one", "two words", "and three more", "é"];
    let together = engine().generate(prompts, &tokens(12)).expect("outputs");
    assert_eq!(together.len(), prompts.len());
    for (prompt, beside) in prompts.iter().zip(&together) {
        let mut alone = engine();
        let outputs = alone.generate(*prompt, &tokens(12)).expect("an output");
        assert_eq!(outputs[0].outputs, beside.outputs, "{prompt}");
        assert_eq!(beside.outputs[0].token_ids.len(), 12);
        assert_eq!(beside.outputs[0].finish, Some(TextFinish::Length));
        assert!(alone.full_text(&outputs[0], 0).expect("text").starts_with(prompt));
    }
}

#[test]
fn ids_text_and_queued_requests_give_the_same() {
    let mut engine = engine();
    let from_text = engine.generate("abc", &tokens(8)).expect("an output");
    let ids = from_text[0].prompt.clone();
    let from_ids = engine.generate(ids, &tokens(8)).expect("an output");
    assert_eq!(from_text[0].outputs, from_ids[0].outputs);

    let ids = engine.add_request("abc", &tokens(8)).expect("queued");
    let finished = finish(&mut engine);
    assert_eq!((finished.len(), &[finished[0].request_id][..]), (1, &ids[..]));
    assert_eq!(finished[0].outputs, from_text[0].outputs);
}

#[test]
fn one_bad_prompt_queues_nothing() {
    let mut engine = engine();
    let long = "x".repeat(300);
    let error = engine.generate(["fine", long.as_str()], &tokens(4)).expect_err("too long");
    assert!(matches!(error, Error::PromptTextTooLong { least: 257, limit: 256 }), "{error}");
    assert_eq!(engine.unfinished(), 0);
    assert_eq!(engine.stats().waiting, 0);
    engine.add_request(["fine", long.as_str()], &tokens(4)).expect_err("too long");
    assert_eq!((engine.unfinished(), engine.stats().waiting), (0, 0));
}

#[test]
fn several_prompts_are_added_at_once() {
    let prompts = ["one", "two words", "é"];
    let expected = engine().generate(prompts, &tokens(6)).expect("outputs");
    let mut engine = engine();
    let ids = engine.add_request(prompts, &tokens(6)).expect("queued");
    assert_eq!(engine.unfinished(), prompts.len());
    let mut finished = finish(&mut engine);
    finished.sort_by_key(|generated| generated.request_id);
    assert_eq!(finished.iter().map(|generated| generated.request_id).collect::<Vec<_>>(), ids);
    assert_eq!(finished, expected);
}

#[test]
fn a_stop_text_ends_one_output_and_frees_its_pages() {
    let mut engine = engine();
    let whole = &engine.generate("stop here", &tokens(24)).expect("an output")[0].outputs[0];
    let middle: String = whole.text.chars().skip(5).take(2).collect();
    let cut = whole.text.find(&middle).expect("a part of it");
    let expected = whole.text[..cut].to_string();
    let stop = Some(vec![middle.clone()]);
    let generation = GenerationConfig { stop, ..tokens(24) };
    let stopped = engine.generate("stop here", &generation).expect("an output");
    assert_eq!(stopped[0].outputs[0].text, expected);
    assert_eq!(stopped[0].outputs[0].finish, Some(TextFinish::StopText(middle)));
    let stats = engine.stats();
    assert_eq!(stats.pages_free, stats.pages_total);
}

#[test]
fn a_stop_text_may_be_part_of_the_output() {
    let mut engine = engine();
    let whole = engine.generate("stop here", &tokens(24)).expect("an output")[0].outputs[0].clone();
    let middle: String = whole.text.chars().skip(5).take(2).collect();
    let cut = whole.text.find(&middle).expect("a part of it") + middle.len();
    let stop = Some(vec![middle.clone()]);
    let request = TextRequest::new("stop here", GenerationConfig { stop, ..tokens(24) });
    engine.add(TextRequest { include_stop_text: true, ..request }).expect("queued");
    let finished = finish(&mut engine);
    assert_eq!(finished[0].outputs[0].text, whole.text[..cut]);
    assert_eq!(finished[0].outputs[0].finish, Some(TextFinish::StopText(middle)));
}

#[test]
fn a_truncated_prompt_keeps_its_last_tokens() {
    let mut engine = engine();
    let ids: Vec<u32> = (0..320).collect();
    let generation = tokens(4);
    let truncated = |tokens| TextRequest {
        truncate_prompt_tokens: Some(tokens),
        ..TextRequest::new(ids.clone(), generation.clone())
    };
    // 320 tokens are more than max_input_len; the last 256 are not.
    for (tokens, kept) in [(1, &ids[319..]), (7, &ids[313..]), (256, &ids[64..])] {
        engine.add(truncated(tokens)).expect("queued");
        let finished = finish(&mut engine);
        assert_eq!(finished[0].prompt, kept);
    }
    let error = engine.add(truncated(257)).expect_err("too long");
    assert!(matches!(error, Error::PromptTooLong { tokens: 257, limit: 256 }), "{error}");
    let error = engine.add(truncated(0)).expect_err("nothing is left").to_string();
    assert_eq!(error, "truncate_prompt_tokens is 0: it must be at least 1, or left out");
    let short = TextRequest { prompt: Prompt::Tokens(vec![5, 6]), ..truncated(usize::MAX) };
    engine.add(short).expect("queued");
    assert_eq!(finish(&mut engine)[0].prompt, [5, 6]);
}

#[test]
fn choices_differ_and_repeat_with_their_seed() {
    let drawn = GenerationConfig { do_sample: Some(true), seed: Some(7), n: Some(3), ..tokens(10) };
    let first = engine().generate("draw", &drawn).expect("outputs");
    let second = engine().generate(["other", "draw"], &drawn).expect("outputs");
    assert_eq!(first[0].outputs, second[1].outputs);
    let texts: Vec<_> = first[0].outputs.iter().map(|output| &output.token_ids).collect();
    assert!(texts[0] != texts[1] && texts[1] != texts[2]);
}

/// Room for a chunk used to be taken by its size as given, which overflowed or took all memory.
#[test]
fn a_chunk_size_beyond_every_sequence_is_refused_or_costs_nothing() {
    let with = |cache_length, chunk_size| {
        let kv_cache = RequestedKvCache {
            name: Some("lastrec-default".into()),
            cache_length: Some(Lengths::One(cache_length)),
            chunk_size: Some(chunk_size),
            ..RequestedKvCache::default()
        };
        InferenceEngine::new(tiny(), &InferenceConfig { kv_cache, ..config() })
    };
    let Err(error) = with(64, usize::MAX) else { panic!("a chunk is larger than its cache") };
    let want = "kv_cache: kv_cache.chunk_size is 18446744073709551615: it must be 1 or more, up to \
                2147483647";
    assert_eq!(error.to_string(), want);
    let mut engine = with(i32::MAX as usize, 1 << 30).expect("more than any sequence has");
    assert!(engine.memory().scratch_bytes < 1 << 30, "{}", engine.memory().scratch_bytes);
    let outputs = engine.generate("abc", &tokens(3)).expect("an output");
    assert_eq!(outputs[0].outputs[0].token_ids.len(), 3);
}

#[test]
fn options_that_cannot_act_are_refused() {
    let lastrec =
        RequestedKvCache { name: Some("lastrec-fp8".into()), ..RequestedKvCache::default() };
    let refused = [
        InferenceConfig { beam_width: 4, ..config() },
        InferenceConfig { tp_size: 2, ..config() },
        InferenceConfig { use_cuda_kernel: Some(true), device: DeviceChoice::Cpu, ..config() },
        InferenceConfig { use_spec_dec: true, ..config() },
        InferenceConfig { start_token_size: 8, ..config() },
        InferenceConfig { enable_streamingllm: true, kv_cache: lastrec, ..config() },
        InferenceConfig { dtype: Precision::Fp8E4m3, ..config() },
        InferenceConfig { gpu_memory_fraction: 0.0, ..config() },
        InferenceConfig { gpu_memory_fraction: 1.1, ..config() },
        InferenceConfig { block_size: 0, ..config() },
        InferenceConfig { block_size: usize::MAX / 2, ..config() },
        InferenceConfig { prompt_template: Some("no place for it".into()), ..config() },
    ];
    for config in refused {
        assert!(InferenceEngine::new(tiny(), &config).is_err(), "{config:?}");
    }
}

#[test]
fn a_streaming_cache_generates_beyond_its_length() {
    let streaming =
        InferenceConfig { enable_streamingllm: true, generated_token_size: 12, ..config() };
    let mut engine = InferenceEngine::new(tiny(), &streaming).expect("an engine");
    let pages = engine.memory().seq_pages.expect("a bounded cache");
    assert!(pages <= 2, "16 slots are {pages} pages");
    let outputs = engine.generate("hello", &tokens(64)).expect("an output");
    assert_eq!(outputs[0].outputs[0].token_ids.len(), 64);
}

#[tokio::test]
async fn outputs_can_be_awaited_streamed_and_aborted() {
    let engine = AsyncInferenceEngine::new(tiny(), &config()).expect("an engine");
    let expected = self::engine().generate("hello", &tokens(16)).expect("an output");
    let outputs = engine.generate(1, "hello", tokens(16)).await.expect("an output");
    assert_eq!(outputs, expected[0].outputs);

    engine.add_request(2, "hello", tokens(16)).await.expect("queued");
    let twice = engine.add_request(2, "hello", tokens(16)).await.expect_err("a double id");
    assert!(matches!(twice, Error::DuplicateRequest { id: 2 }));
    let mut stream = engine.stream(2).expect("it was added");
    let mut text = String::new();
    let mut events = 0;
    while let Some(event) = stream.next().await {
        text += &event.text;
        events += 1;
    }
    assert_eq!(text, expected[0].outputs[0].text);
    assert!(events > 4, "token by token, not in one piece");

    engine.add_request(3, Prompt::Text("long".into()), tokens(200)).await.expect("queued");
    engine.step().await;
    engine.abort(3).expect("it was added");
    assert!(matches!(engine.abort(3), Err(Error::UnknownRequest { id: 3 })));
    // The abort reaches the engine between two steps; a whole request later it is surely done.
    engine.generate(4, "after", tokens(4)).await.expect("an output");
    let stats = engine.model().stats();
    assert_eq!((stats.pages_free, stats.running), (stats.pages_total, 0));
}

/// Presets equal to ColossalAI's defaults used to count as left out, and the model's file won.
#[test]
fn a_preset_equal_to_its_default_wins_over_the_models_file() {
    let engine = |json: &str, presets: InferenceConfig| {
        let mut model = tiny();
        model.text.generation_config = Some(json.to_owned());
        InferenceEngine::new(model, &presets).expect("an engine")
    };
    let output = |mut engine: InferenceEngine, generation: GenerationConfig| {
        let seed = Some(7);
        let generation = GenerationConfig { seed, ..generation.or(&tokens(12)) };
        engine.generate("preset", &generation).expect("an output").remove(0).outputs.remove(0)
    };
    let nothing = GenerationConfig::default;
    let greedy = output(self::engine(), nothing());
    let samples = r#"{"do_sample": true, "temperature": 3.0, "top_k": 300, "top_p": 0.99}"#;
    assert_ne!(output(engine(samples, config()), nothing()), greedy, "the file must act");

    let preset = InferenceConfig { do_sample: Some(false), ..config() };
    assert_eq!(output(engine(samples, preset), nothing()), greedy);
    let asked = GenerationConfig { do_sample: Some(false), ..nothing() };
    assert_eq!(output(engine(samples, config()), asked), greedy);

    // Each preset alone, at its default, over a file that says something else.
    let repeating = r#"{"repetition_penalty": 0.01}"#;
    let repeated = output(engine(repeating, config()), nothing());
    assert_ne!(repeated, greedy, "the file must act");
    let preset = InferenceConfig { repetition_penalty: Some(1.0), ..config() };
    assert_eq!(output(engine(repeating, preset), nothing()), greedy);
    let unrepeated = r#"{"repetition_penalty": 0.01, "no_repeat_ngram_size": 1}"#;
    assert_ne!(output(engine(unrepeated, config()), nothing()), repeated, "the file must act");
    let preset = InferenceConfig { no_repeat_ngram_size: Some(0), ..config() };
    assert_eq!(output(engine(unrepeated, preset), nothing()), repeated);

    let drawn = GenerationConfig { do_sample: Some(true), ..nothing() };
    let defaults = output(self::engine(), drawn.clone());
    assert_ne!(output(engine(samples, config()), drawn.clone()), defaults, "the file must act");
    let preset =
        InferenceConfig { temperature: Some(1.0), top_k: Some(50), top_p: Some(1.0), ..config() };
    assert_eq!(output(engine(samples, preset), drawn), defaults);
    let config: InferenceConfig = serde_json::from_str(r#"{"do_sample": false}"#).expect("options");
    assert_eq!(config.generation_presets().do_sample, Some(false));
}

/// The model's own tokenizer used to be the only one.
#[test]
fn an_engine_takes_the_callers_tokenizer() {
    // As the tiny model's, with two letters exchanged.
    let folder = TinyModel::new();
    let path = folder.path().join("tokenizer.json");
    let own = std::fs::read_to_string(&path).expect("its tokenizer");
    let (a, b) = (u32::from(b'a') + 3, u32::from(b'b') + 3);
    let exchanged = own.replace(&format!(r#""a": {a}"#), &format!(r#""a": {b} "#));
    let exchanged = exchanged.replace(&format!(r#""b": {b},"#), &format!(r#""b": {a},"#));
    std::fs::write(&path, exchanged).expect("writable");
    let tokenizer = || Tokenizer::from_file(&path).expect("a tokenizer");

    let expected = engine().generate("abba", &tokens(8)).expect("an output").remove(0);
    let mut engine =
        InferenceEngine::with_tokenizer(tiny(), tokenizer(), &config()).expect("an engine");
    let generated = engine.generate("baab", &tokens(8)).expect("an output").remove(0);
    assert_eq!(generated.prompt, expected.prompt);
    assert_eq!(generated.outputs[0].token_ids, expected.outputs[0].token_ids);
    let exchange = |c: char| match c {
        'a' => 'b',
        'b' => 'a',
        other => other,
    };
    let text: String = expected.outputs[0].text.chars().map(exchange).collect();
    assert_eq!(generated.outputs[0].text, text);

    let larger = own.replace(r#""<pad>": 0"#, r#""more": 320, "<pad>": 0"#);
    std::fs::write(&path, larger).expect("writable");
    let Err(error) = InferenceEngine::with_tokenizer(tiny(), tokenizer(), &config()) else {
        panic!("token 320 is none of the model's")
    };
    let want = "the tokenizer has 321 ids, the model a vocabulary of 320: take the model's own";
    assert_eq!(error.to_string(), want);
}

#[test]
fn a_verbose_engine_logs_its_memory_and_its_requests() {
    let logged = |verbose| {
        let log = CapturedLog::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let config = InferenceConfig { verbose, ..config() };
            let mut engine = InferenceEngine::new(tiny(), &config).expect("an engine");
            engine.generate("four", &tokens(3)).expect("an output");
        });
        log.text()
    };
    let verbose = logged(true);
    for line in ["the engine has its memory", "a request", "a choice has finished"] {
        assert_eq!(verbose.matches(line).count(), 1, "{line:?} in {verbose}");
    }
    assert!(verbose.contains("output_tokens=3 finish=Length"), "{verbose}");
    assert!(!logged(false).contains("a request"));
}

#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
    }
}

impl std::io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The tiny model's tokens are bytes, with their ids moved on by 3.
#[test]
fn bad_words_do_not_occur() {
    let byte = |byte: u8| u32::from(byte) + 3;
    let logit_bias = Some(vec![(byte(b'a'), 100.0), (byte(b'b'), 80.0), (byte(b' '), 60.0)]);
    let mut engine = engine();
    let mut check = |words: &[&str], want: &str| {
        let bad_words = Some(words.iter().map(|word| word.to_string()).collect());
        let logit_bias = logit_bias.clone();
        let generation = GenerationConfig { logit_bias, bad_words, ..tokens(7) };
        let outputs = engine.generate("aa", &generation).expect("an output");
        assert_eq!(outputs[0].outputs[0].text, want, "{words:?}");
    };
    check(&[], "aaaaaaa");
    check(&["a"], "bbbbbbb");
    check(&["aaa"], "aabaaba");
    check(&["aa"], "abababa");
    check(&["aa", "ba"], "abbbbbb");
    check(&["aa", "b"], "a a a a");
    check(&["aa", "b", " a"], "a      ");
}
