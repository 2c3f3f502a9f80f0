//! KV caches that are held by name, over a real model on the CPU: outputs are the same from memory,
//! from a file and after a restart.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use terrace_engine::text::{GenerationConfig, LanguageModel, Prompt, TextFinish, TextRequest};
use terrace_engine::{
    ComputeChoice, DiskLevel, Error, Failure, HandleError, HandleId, HandleLabels, HandlePrompt,
    HandleSummary, InferenceConfig, KvTiers, Lengths, RequestedKvCache, Shutdown, TokenId,
};

use terrace_tiers::{HandleReader, HandleWriter};

use crate::tiny_model::{config, tiny};

const NEW_TOKENS: usize = 6;

fn on_disk(folder: &Path) -> InferenceConfig {
    let disk = Some(DiskLevel { folder: folder.into(), bytes: 64 << 20 });
    with_tiers(KvTiers { disk, host_bytes: Some(4 << 20), ..KvTiers::default() })
}

fn with_tiers(kv_tiers: KvTiers) -> InferenceConfig {
    InferenceConfig {
        block_size: 4,
        max_batch_size: 4,
        kv_memory_bytes: Some(1 << 20),
        kv_tiers,
        ..config()
    }
}

fn start(config: &InferenceConfig) -> LanguageModel {
    LanguageModel::start(tiny(), config, || {}).expect("an engine")
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    runtime.expect("a runtime").block_on(future)
}

fn selective(name: &str) -> RequestedKvCache {
    RequestedKvCache {
        name: Some(name.into()),
        cache_length: Some(Lengths::One(24)),
        chunk_size: Some(8),
        ..RequestedKvCache::default()
    }
}

fn document(tokens: usize) -> Vec<TokenId> {
    (0..tokens).map(|token| (token * token % 251 + 3) as TokenId).collect()
}

fn labels(name: &str) -> HandleLabels {
    HandleLabels { name: Some(name.into()), ..HandleLabels::default() }
}

fn save(
    model: &LanguageModel,
    tokens: &[TokenId],
    cache: &RequestedKvCache,
    labels: HandleLabels,
) -> Result<HandleSummary, Error> {
    let (tokens, kv_cache) = (tokens.to_vec(), cache.clone());
    let prompt = HandlePrompt { tokens, kv_cache, ..HandlePrompt::default() };
    wait(model.kv_handles().create_from_tokens(prompt, labels))
}

/// What came of a request: ids with the bits of their log-probabilities, or why it failed.
#[derive(Debug, PartialEq)]
struct Answer {
    tokens: Vec<(TokenId, u32)>,
    failure: Option<Failure>,
    cached: usize,
    crosses: bool,
}

fn request(past: Option<HandleId>, prompt: &[TokenId]) -> TextRequest {
    let generation = GenerationConfig {
        max_new_tokens: Some(NEW_TOKENS),
        ignore_eos: Some(true),
        logprobs: Some(0),
        ..GenerationConfig::default()
    };
    TextRequest { past, ..TextRequest::new(Prompt::Tokens(prompt.to_vec()), generation) }
}

fn ask(model: &LanguageModel, past: Option<HandleId>, prompt: &[TokenId]) -> Answer {
    answer(model, request(past, prompt)).0
}

fn answer(model: &LanguageModel, request: TextRequest) -> (Answer, terrace_engine::RequestId) {
    let mut stream = model.submit(request).expect("it fits");
    let mut answer = Answer {
        tokens: Vec::new(),
        failure: None,
        cached: 0,
        crosses: stream.crosses_arithmetic(),
    };
    while let Some(event) = stream.next_blocking() {
        let bits = |logprob: f32| logprob.to_bits();
        answer.tokens.extend(event.tokens.iter().map(|token| {
            let logprobs = token.logprobs.as_ref().expect("they were asked for");
            (token.id, bits(logprobs.logprob))
        }));
        if let Some(TextFinish::Failed(failure)) = event.finish {
            answer.failure = Some(failure);
        }
    }
    answer.cached = stream.cached_tokens();
    (answer, stream.request_id())
}

/// Goes on from a handle in memory, in a file, and after a restart; the outputs are the same.
fn check_same(cache: &RequestedKvCache, is_cold_same: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let (document, question) = (document(70), [7, 8, 9, 10, 11]);
    let in_memory = start(&with_tiers(KvTiers::default()));
    let made = save(&in_memory, &document, cache, labels("doc")).expect("a handle");
    assert!(!made.is_durable && made.is_resident, "{made:?}");
    let expected = ask(&in_memory, Some(made.id), &question);
    assert_eq!((expected.cached, expected.failure), (70, None), "{cache:?}");
    if is_cold_same {
        let cold = ask(&start(&with_tiers(KvTiers::default())), None, &{
            [&document[..], &question].concat()
        });
        assert_eq!(cold.tokens, expected.tokens, "{cache:?}");
    }
    let model = start(&on_disk(folder.path()));
    let made = save(&model, &document, cache, labels("doc")).expect("a handle");
    assert!(made.is_durable && made.tokens == 70 && 0 < made.bytes, "{made:?}");
    for round in 0..2 {
        assert_eq!(ask(&model, Some(made.id), &question), expected, "{cache:?}, {round}");
    }
    model.shutdown(Shutdown::Now);
    drop(model);
    let model = start(&on_disk(folder.path()));
    let found = model.kv_handles().get("doc", None).expect("it is there");
    assert!(!found.is_resident && found.id == made.id && found.kv_cache == made.kv_cache);
    assert_eq!(model.kv_handles().tokens(made.id).expect("they are there")[..], document);
    for round in 0..2 {
        assert_eq!(ask(&model, Some(made.id), &question), expected, "{cache:?}, after {round}");
    }
    let found = model.kv_handles().get("doc", None).expect("it is there");
    assert!(found.is_resident, "{found:?}");
}

#[test]
fn a_prompt_is_saved_as_it_is() {
    check_same(&RequestedKvCache::default(), true);
}

#[test]
fn selective_caches_are_saved_with_what_their_policies_know() {
    for name in ["h2o-default", "h2o-torch-quantized8", "lastrec-default", "qh2o-fp8"] {
        check_same(&selective(name), false);
    }
}

#[test]
fn quantised_caches_that_keep_all_are_saved() {
    let name = Some("dense-torch-quantized8".into());
    check_same(&RequestedKvCache { name, ..RequestedKvCache::default() }, false);
}

#[test]
fn a_finished_response_becomes_a_handle() {
    for cache in [RequestedKvCache::default(), selective("h2o-torch-quantized4")] {
        let folder = tempfile::tempdir().expect("a folder");
        let of_response = |model: &LanguageModel| {
            let first = TextRequest { kv_cache: cache.clone(), ..request(None, &document(40)) };
            let (first, id) = answer(model, first);
            let made = wait(model.kv_handles().create_from_request(id, labels("talk")));
            (first, made.expect("a handle"))
        };
        let in_memory = start(&with_tiers(KvTiers::default()));
        let (first, made) = of_response(&in_memory);
        assert_eq!(made.tokens, 40 + NEW_TOKENS);
        let expected = ask(&in_memory, Some(made.id), &[4, 5]);
        let model = start(&on_disk(folder.path()));
        let (again, made) = of_response(&model);
        assert_eq!(first.tokens, again.tokens);
        assert_eq!(ask(&model, Some(made.id), &[4, 5]), expected, "{cache:?}");
        model.shutdown(Shutdown::Now);
        drop(model);
        let model = start(&on_disk(folder.path()));
        assert_eq!(ask(&model, Some(made.id), &[4, 5]), expected, "{cache:?}");
        let unknown = wait(
            model
                .kv_handles()
                .create_from_request(terrace_engine::RequestId(99), HandleLabels::default()),
        );
        assert!(matches!(unknown, Err(Error::NoRecentResponse { id: 99 })));
    }
}

#[test]
fn handles_of_others_are_refused_with_what_differs() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = start(&on_disk(folder.path()));
    let made = save(&model, &document(30), &RequestedKvCache::default(), labels("doc"));
    let made = made.expect("a handle");
    let mut file = Vec::new();
    let bytes = model.kv_handles().export(made.id, &mut file).expect("a file");
    assert_eq!(bytes, file.len() as u64);
    model.shutdown(Shutdown::Now);
    drop(model);
    let other = tempfile::tempdir().expect("a folder");
    let refusals = [
        (InferenceConfig { block_size: 8, ..on_disk(other.path()) }, "its pages have"),
        (
            InferenceConfig {
                yarn_rope: Some(terrace_engine::YarnRope::Dynamic),
                ..on_disk(other.path())
            },
            "another model or rotary setting",
        ),
    ];
    for (config, what) in refusals {
        let model = start(&config);
        let error = model.kv_handles().import(&file[..], None, None).expect_err("it differs");
        assert!(error.to_string().contains(what), "{error}");
        model.shutdown(Shutdown::Now);
    }
    let without = start(&with_tiers(KvTiers::default()));
    let error = without.kv_handles().import(&file[..], None, None).expect_err("no disk");
    assert!(matches!(error, Error::NoDiskLevel { .. }), "{error}");
    let model = start(&on_disk(other.path()));
    let error = model.kv_handles().import(&file[..file.len() - 9], None, None);
    assert!(matches!(error, Err(Error::Handle(HandleError::Given(_)))), "{error:?}");
    let given = TextRequest { kv_cache: selective("h2o-default"), ..request(None, &[5]) };
    let handle = model.kv_handles().import(&file[..], Some("me"), Some("theirs"));
    let handle = handle.expect("it fits");
    assert!(handle.is_imported && handle.owner.as_deref() == Some("me"), "{handle:?}");
    let refused = model.submit(TextRequest { past: Some(handle.id), ..given });
    assert!(matches!(refused, Err(Error::BadOption { option: "kv_cache", .. })));
    assert!(matches!(model.submit(request(Some(handle.id), &[])), Err(Error::EmptyPrompt)));
    assert!(matches!(model.kv_handles().get("theirs", None), Err(Error::NoSuchHandle { .. })));
}

#[test]
fn pages_with_positions_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = start(&on_disk(folder.path()));
    let made = save(&model, &document(120), &selective("h2o-default"), labels("doc"));
    let mut file = Vec::new();
    model.kv_handles().export(made.expect("a handle").id, &mut file).expect("a file");
    for byte in [0xff, 0, 0x7f] {
        let manifest = HandleReader::new(&file[..]).expect("a handle").manifest().clone();
        let mut forged = Vec::new();
        let mut writer = HandleWriter::new(&mut forged, &manifest).expect("a file");
        for _ in 0..manifest.pages() {
            writer.write_page(&vec![byte; manifest.page_bytes as usize]).expect("a page");
        }
        writer.finish().expect("whole");
        let error = model.kv_handles().import(&forged[..], None, Some("forged"));
        let error = error.expect_err("no history leaves such pages").to_string();
        assert!(error.contains("head 0 of its layer 0"), "{error}");
    }
    let handle = model.kv_handles().import(&file[..], None, Some("true")).expect("it fits");
    assert_eq!(ask(&model, Some(handle.id), &[9, 9]).failure, None);
    model.shutdown(Shutdown::Now);
}

#[test]
fn what_others_computed_never_enters_the_prefix_index() {
    let [folder, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let f32 = InferenceConfig { compute: ComputeChoice::F32, ..on_disk(folder.path()) };
    let model = start(&f32);
    let made = save(&model, &document(40), &RequestedKvCache::default(), labels("doc"));
    let mut file = Vec::new();
    model.kv_handles().export(made.expect("a handle").id, &mut file).expect("a file");
    for compute in [ComputeChoice::F32, ComputeChoice::Fast] {
        let model = start(&InferenceConfig { compute, ..on_disk(other.path()) });
        let handle = model.kv_handles().import(&file[..], None, None).expect("it fits");
        let crosses = compute != ComputeChoice::F32;
        assert_eq!(handle.crosses_arithmetic, crosses, "{handle:?}");
        let past = ask(&model, Some(handle.id), &[9, 9, 9, 9]);
        assert_eq!((past.cached, past.crosses, past.failure), (40, crosses, None));
        let whole = [&document(40)[..], &[9, 9, 9, 9, 4]].concat();
        assert_eq!(ask(&model, None, &whole).cached, 0, "what was imported is private");
        model.shutdown(Shutdown::Now);
    }
}

#[test]
fn pins_are_within_their_budget_and_survive_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = on_disk(folder.path());
    let dense = RequestedKvCache::default();
    let model = start(&config);
    let probe = save(&model, &document(40), &dense, labels("probe")).expect("a handle");
    let pages = 10;
    wait(model.kv_handles().remove(probe.id)).expect("it is there");
    assert!(model.kv_handles().list(None).is_empty());
    model.shutdown(Shutdown::Now);
    drop(model);
    let page_bytes = probe.bytes as usize / pages;
    config.kv_tiers.pin_bytes = Some(15 * page_bytes);
    let model = start(&config);
    let pin = HandleLabels { pin: true, ..labels("first") };
    let first = save(&model, &document(40), &dense, pin).expect("a handle");
    assert!(first.is_pinned && first.is_resident, "{first:?}");
    let second = save(&model, &document(41)[1..], &dense, labels("second")).expect("a handle");
    let error = wait(model.kv_handles().set_pinned(second.id, true)).expect_err("it is spent");
    assert!(matches!(error, Error::PinBudget { .. }), "{error}");
    assert!(error.to_string().contains("--kv-pin-budget"), "{error}");
    let expected = ask(&model, Some(first.id), &[4]);
    model.shutdown(Shutdown::Now);
    drop(model);
    let model = start(&config);
    while !model.kv_handles().get("first", None).expect("it is there").is_resident {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(ask(&model, Some(first.id), &[4]), expected);
    let unpinned = wait(model.kv_handles().set_pinned(first.id, false)).expect("it is there");
    assert!(!unpinned.is_pinned);
    let pinned = wait(model.kv_handles().set_pinned(second.id, true)).expect("there is room");
    assert!(pinned.is_pinned && pinned.is_resident, "{pinned:?}");
}

#[test]
fn handles_wait_for_the_store_while_others_leave_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = on_disk(folder.path());
    let dense = RequestedKvCache::default();
    let made = save(&start(&config), &document(80), &dense, labels("first")).expect("a handle");
    // The store holds one of them at a time.
    config.kv_tiers.host_bytes = Some(made.bytes as usize * 3 / 2);
    let model = start(&config);
    std::thread::scope(|scope| {
        for number in 0..12 {
            let (model, dense) = (&model, &dense);
            scope.spawn(move || {
                let tokens: Vec<TokenId> = document(79).iter().map(|id| id + number).collect();
                let name = format!("one of many, {number}");
                let made = save(model, &tokens, dense, labels(&name)).expect("room comes");
                assert!(made.is_durable, "{made:?}");
            });
        }
    });
}

#[test]
fn a_store_that_is_too_small_is_said_with_the_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = on_disk(folder.path());
    let dense = RequestedKvCache::default();
    let model = start(&config);
    let made = save(&model, &document(80), &dense, labels("long")).expect("a handle");
    let expected = ask(&model, Some(made.id), &[4]);
    let page_bytes = made.bytes as usize / 20;
    model.shutdown(Shutdown::Now);
    drop(model);
    config.kv_tiers.host_bytes = Some(5 * page_bytes);
    let model = start(&config);
    let error = save(&model, &document(90)[5..], &dense, labels("other")).expect_err("no room");
    assert!(matches!(error, Error::NoHostRoom { wanted: 22, .. }), "{error}");
    assert!(error.to_string().contains("--kv-tier host="), "{error}");
    let refused = ask(&model, Some(made.id), &[4]);
    assert_eq!(refused.failure, Some(Failure::NoRoomForHandle));
    // Others go on.
    assert_eq!(ask(&model, None, &[4, 5, 6]).failure, None);
    model.shutdown(Shutdown::Now);
    drop(model);
    let model = start(&on_disk(folder.path()));
    assert_eq!(ask(&model, Some(made.id), &[4]), expected);
}

#[test]
fn a_damaged_file_fails_the_requests_that_need_it_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = start(&on_disk(folder.path()));
    let dense = RequestedKvCache::default();
    let made = save(&model, &document(60), &dense, labels("doc")).expect("a handle");
    let good = save(&model, &document(61)[1..], &dense, labels("good")).expect("a handle");
    let expected = ask(&model, Some(good.id), &[4]);
    model.shutdown(Shutdown::Now);
    drop(model);
    let path = folder.path().join("handles").join(format!("{}.kv", made.id));
    let mut bytes = std::fs::read(&path).expect("a file");
    let middle = bytes.len() * 3 / 4;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("writable");
    let model = start(&on_disk(folder.path()));
    assert_eq!(ask(&model, Some(made.id), &[4]).failure, Some(Failure::BadHandle));
    let error = wait(model.kv_handles().set_pinned(made.id, true)).expect_err("it is damaged");
    assert!(matches!(error, Error::Handle(HandleError::Damaged { .. })), "{error}");
    assert_eq!(ask(&model, Some(good.id), &[4]), expected);
}

#[test]
fn many_requests_share_a_load_and_some_are_cancelled_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = start(&on_disk(folder.path()));
    let made = save(&model, &document(60), &selective("h2o-default"), labels("doc"));
    let made = made.expect("a handle");
    let expected = ask(&model, Some(made.id), &[4, 5]);
    model.shutdown(Shutdown::Now);
    drop(model);
    for cancelled in 0..4 {
        let model = start(&on_disk(folder.path()));
        let n = GenerationConfig { n: Some(2), ..request(None, &[]).generation };
        let forked = TextRequest { generation: n, ..request(Some(made.id), &[4, 5]) };
        let mut streams: Vec<_> = [forked, request(Some(made.id), &[4, 5]), request(None, &[8; 9])]
            .into_iter()
            .chain((0..3).map(|_| request(Some(made.id), &[4, 5])))
            .map(|request| model.submit(request).expect("it fits"))
            .collect();
        drop(streams.remove(cancelled));
        for mut stream in streams {
            let mut tokens = vec![Vec::new(); 2];
            let mut failed = false;
            while let Some(event) = stream.next_blocking() {
                tokens[event.choice].extend(event.tokens.iter().map(|token| token.id));
                failed |= matches!(event.finish, Some(TextFinish::Failed(_)));
            }
            assert!(!failed);
            if stream.prompt_tokens().len() == 62 {
                let expected: Vec<_> = expected.tokens.iter().map(|(id, _)| *id).collect();
                tokens.retain(|tokens| !tokens.is_empty());
                assert!(tokens.iter().all(|tokens| *tokens == expected), "{cancelled}");
            }
        }
        model.shutdown(Shutdown::Now);
    }
}

#[test]
fn names_belong_to_their_owners_and_times_end() {
    let folder = tempfile::tempdir().expect("a folder");
    for config in [on_disk(folder.path()), with_tiers(KvTiers::default())] {
        let model = start(&config);
        let (handles, dense) = (model.kv_handles(), RequestedKvCache::default());
        let of = |owner: &str| HandleLabels { owner: Some(owner.into()), ..labels("doc") };
        let [a, b] = ["a", "b"]
            .map(|owner| save(&model, &document(20), &dense, of(owner)).expect("a handle"));
        assert_eq!(handles.list(Some("a")).len(), 1);
        assert_eq!(handles.get("doc", Some("b")).expect("its own").id, b.id);
        let theirs = handles.get(&a.id.to_string(), Some("b"));
        assert!(matches!(theirs, Err(Error::NoSuchHandle { .. })));
        let again = save(&model, &document(21), &dense, of("a")).expect("a handle");
        assert_eq!(handles.list(Some("a")), [handles.get("doc", Some("a")).expect("its own")]);
        assert_eq!(handles.list(Some("a"))[0].id, again.id, "a name is that of one handle");
        let bad = save(&model, &document(5), &dense, labels("a\nb")).expect_err("a line break");
        assert!(matches!(bad, Error::Handle(HandleError::Name(_))), "{bad}");
        let own = save(&model, &document(5), &dense, HandleLabels::default()).expect("a handle");
        assert!(own.name.starts_with("handle-"), "{own:?}");
        let renamed = wait(handles.rename(own.id, "mine")).expect("it is free");
        assert_eq!(renamed.name, "mine");
        let other = save(&model, &document(6), &dense, labels("other")).expect("a handle");
        let taken = wait(handles.rename(other.id, "mine")).expect_err("it is taken");
        assert!(matches!(taken, Error::Handle(HandleError::NameTaken { .. })), "{taken}");
        wait(handles.set_ttl(own.id, Some(Duration::ZERO))).expect_err("its time is over");
        assert!(matches!(handles.get("mine", None), Err(Error::NoSuchHandle { .. })));
        wait(handles.remove(other.id)).expect("it is there");
        let gone = wait(handles.remove(other.id)).expect_err("it is gone");
        assert!(matches!(gone, Error::NoSuchHandle { .. }), "{gone}");
        assert!(matches!(
            model.submit(request(Some(other.id), &[4])),
            Err(Error::NoSuchHandle { .. })
        ));
    }
}
