//! Models that come and go while they are asked.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use super::*;
use crate::kserve::infer_error::InferErrorKind;
use crate::kserve::infer_outputs::InferOutputs;
use crate::kserve::infer_request::InferRequest;
use crate::kserve::inference_model::{BatchExecutions, ModelMetadata};
use crate::kserve::messages::ModelConfig;

/// Says its version; may have to be let go before it answers.
struct Echo {
    metadata: ModelMetadata,
    gate: Arc<Semaphore>,
    alive: Arc<AtomicUsize>,
}

impl Echo {
    fn model(name: &str, version: u64, around: &Around) -> Arc<dyn InferenceModel> {
        around.alive.fetch_add(1, Ordering::SeqCst);
        let metadata = ModelMetadata {
            name: name.to_owned(),
            version,
            platform: "echo".to_owned(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let (gate, alive) = (Arc::clone(&around.gate), Arc::clone(&around.alive));
        Arc::new(Self { metadata, gate, alive })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl InferenceModel for Echo {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    fn config(&self) -> ModelConfig {
        ModelConfig::default()
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'_, Result<InferOutputs, InferError>> {
        Box::pin(async {
            let _pass = self.gate.acquire().await.expect("it is never closed");
            Ok(InferOutputs { inferences: self.metadata.version, ..InferOutputs::default() })
        })
    }

    fn batches(&self) -> Vec<BatchExecutions> {
        Vec::new()
    }
}

/// What models and tests share.
#[derive(Clone)]
struct Around {
    gate: Arc<Semaphore>,
    alive: Arc<AtomicUsize>,
}

/// Gives the versions that are set; fails where there are none.
struct Source {
    around: Around,
    versions: Mutex<Vec<u64>>,
    panics: AtomicBool,
    loads: AtomicUsize,
    loading: AtomicUsize,
}

impl ModelSource for Source {
    fn names(&self) -> Result<Vec<String>, String> {
        Ok(vec!["a".to_owned(), "never".to_owned()])
    }

    fn load(
        &self,
        name: &str,
        request: LoadRequest,
    ) -> Result<Vec<Arc<dyn InferenceModel>>, String> {
        assert_eq!(self.loading.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
        self.loads.fetch_add(1, Ordering::SeqCst);
        assert_eq!(request.threads.run(|| 1), Ok(1));
        let versions = self.versions.lock().expect("no panics").clone();
        self.loading.fetch_sub(1, Ordering::SeqCst);
        assert!(!self.panics.load(Ordering::SeqCst), "on purpose");
        match versions.is_empty() {
            true => Err("its files are gone".to_owned()),
            false => Ok(versions.iter().map(|it| Echo::model(name, *it, &self.around)).collect()),
        }
    }
}

struct Setup {
    registry: Arc<ModelRegistry>,
    source: Arc<Source>,
    around: Around,
}

fn setup(versions: &[u64]) -> Setup {
    let around = Around { gate: Arc::new(Semaphore::new(1000)), alive: Arc::default() };
    let source = Arc::new(Source {
        around: around.clone(),
        versions: Mutex::new(versions.to_vec()),
        panics: AtomicBool::new(false),
        loads: AtomicUsize::new(0),
        loading: AtomicUsize::new(0),
    });
    let shared: Arc<dyn ModelSource> = Arc::<Source>::clone(&source);
    let registry = Arc::new(ModelRegistry::with_source(shared).expect("a thread"));
    Setup { registry, source, around }
}

impl Setup {
    async fn load(&self) -> Result<(), InferError> {
        self.registry.load("a", LoadParameters::default()).await
    }

    fn set(&self, versions: &[u64]) {
        *self.source.versions.lock().expect("no panics") = versions.to_vec();
    }

    /// Rows of the index as texts.
    async fn index(&self) -> Vec<String> {
        let rows = self.registry.index(false).await.expect("the source has names").into_iter();
        let text = |row: IndexedModel| {
            let version = row.version.map(|it| it.to_string()).unwrap_or_default();
            let state = row.state.map(ModelState::name).unwrap_or_default();
            format!("{} {version} {state} {}", row.name, row.reason)
        };
        rows.map(text).collect()
    }

    /// Waits until so many models are left: they go on threads of their own.
    async fn wait_alive(&self, count: usize) {
        while self.around.alive.load(Ordering::SeqCst) != count {
            tokio::task::yield_now().await;
        }
    }
}

async fn ask(registry: &ModelRegistry, version: &str) -> Result<u64, InferErrorKind> {
    let served = registry.find("a", version).map_err(|error| error.kind)?;
    let outputs = served.infer(InferRequest::default()).await.map_err(|error| error.kind)?;
    assert_eq!(outputs.inferences, served.metadata().version);
    Ok(outputs.inferences)
}

#[tokio::test]
async fn the_latest_answers_where_no_version_is_named() {
    let setup = setup(&[1, 10, 9]);
    let registry = &setup.registry;
    assert_eq!(ask(registry, "").await, Err(InferErrorKind::NotFound));
    setup.load().await.expect("it loads");
    assert_eq!(ask(registry, "").await, Ok(10));
    assert_eq!(ask(registry, "9").await, Ok(9));
    assert_eq!(ask(registry, "2").await, Err(InferErrorKind::NotFound));
    assert_eq!(ask(registry, "x").await, Err(InferErrorKind::InvalidArgument));
    let error = registry.find("a", "2").err().expect("there is none");
    assert_eq!(error.message, "model \"a\" has no version 2; ready are 1, 9, 10");
    let error = registry.find("b", "").err().expect("there is none");
    assert_eq!(error.message, "there is no model \"b\" here; known: a");
    assert_eq!(registry.served("a", "").expect("three").len(), 3);
    assert_eq!(registry.served("", "").expect("three").len(), 3);
    assert_eq!(registry.served("a", "9").expect("one").len(), 1);
    assert!(registry.served("", "9").is_err() && registry.served("b", "").is_err());
}

#[tokio::test]
async fn the_index_says_what_becomes_of_a_model() {
    let setup = setup(&[1, 2]);
    assert_eq!(setup.index().await, ["a   ", "never   "]);
    setup.load().await.expect("it loads");
    assert_eq!(setup.index().await, ["a 1 READY ", "a 2 READY ", "never   "]);
    let held = setup.registry.find("a", "2").expect("it is ready");
    setup.registry.unload("a").await.expect("it was there");
    let unloading =
        ["a 1 UNAVAILABLE unloaded", "a 2 UNLOADING requests are under way", "never   "];
    assert_eq!(setup.index().await, unloading);
    assert_eq!(ask(&setup.registry, "").await, Err(InferErrorKind::Unavailable));
    drop(held);
    setup.wait_alive(0).await;
    let gone = ["a 1 UNAVAILABLE unloaded", "a 2 UNAVAILABLE unloaded", "never   "];
    assert_eq!(setup.index().await, gone);
    assert_eq!(setup.registry.index(true).await.expect("no source is asked"), []);
    setup.registry.unload("a").await.expect("it may be unloaded again");
    let error = setup.registry.unload("b").await.expect_err("it was never there");
    assert_eq!(error.kind, InferErrorKind::NotFound);
}

#[tokio::test]
async fn a_load_that_fails_leaves_what_is_served() {
    let setup = setup(&[]);
    let error = setup.load().await.expect_err("there is nothing");
    assert_eq!(error.message, "model \"a\" was not loaded: its files are gone");
    assert_eq!(setup.index().await[0], "a  UNAVAILABLE its files are gone");
    setup.set(&[3]);
    setup.load().await.expect("it loads");
    for (versions, panics, why) in [
        (vec![], false, "its files are gone"),
        (vec![4, 4], false, "version 4 twice"),
        (vec![4], true, "failed in the middle"),
    ] {
        setup.set(&versions);
        setup.source.panics.store(panics, Ordering::SeqCst);
        let error = setup.load().await.expect_err("it fails");
        assert!(error.message.contains(why), "{error}");
        assert_eq!(ask(&setup.registry, "").await, Ok(3));
        let row = &setup.index().await[0];
        assert!(
            row.starts_with("a 3 READY the last load has failed") && row.contains(why),
            "{row}"
        );
    }
    setup.source.panics.store(false, Ordering::SeqCst);
    setup.set(&[5]);
    setup.load().await.expect("it loads");
    assert_eq!(setup.index().await[0], "a 5 READY ");
    setup.wait_alive(1).await;
}

#[tokio::test]
async fn requests_under_way_end_with_what_they_began_with() {
    let setup = setup(&[1]);
    setup.load().await.expect("it loads");
    let all = setup.around.gate.clone().acquire_many_owned(1000).await.expect("it is open");
    let registry = Arc::clone(&setup.registry);
    let asked = tokio::spawn(async move { ask(&registry, "").await });
    while setup.registry.find("a", "").map(|it| Arc::strong_count(&it)).unwrap_or(0) < 3 {
        tokio::task::yield_now().await;
    }
    setup.set(&[2]);
    setup.load().await.expect("it loads");
    assert_eq!(setup.around.alive.load(Ordering::SeqCst), 2);
    drop(all);
    assert_eq!(asked.await.expect("no panic"), Ok(1));
    assert_eq!(ask(&setup.registry, "").await, Ok(2));
    setup.wait_alive(1).await;
}

#[tokio::test]
async fn what_came_with_the_start_stays_until_one_of_its_name_is_loaded() {
    let setup = setup(&[1]);
    let fixed = || Echo::model("a", 7, &setup.around);
    setup.registry.add_fixed(fixed()).expect("the name is free");
    assert_eq!(setup.registry.add_fixed(fixed()), Err("a".to_owned()));
    let error = setup.registry.unload("a").await.expect_err("it stays");
    assert!(error.message.contains("from the start of this server"), "{error}");
    assert_eq!(ask(&setup.registry, "").await, Ok(7));
    setup.load().await.expect("the repository has one of that name");
    assert_eq!(ask(&setup.registry, "").await, Ok(1));
    setup.registry.unload("a").await.expect("that one goes");
    let bare = Arc::new(ModelRegistry::default());
    let error = bare.load("a", LoadParameters::default()).await.expect_err("there is no source");
    assert_eq!(error.kind, InferErrorKind::Unsupported);
    assert!(bare.is_empty() && !setup.registry.is_empty());
}

#[tokio::test]
async fn a_load_goes_on_when_nobody_waits_for_it() {
    let setup = setup(&[1]);
    let mut loading = Box::pin(setup.load());
    assert!(futures_util::poll!(loading.as_mut()).is_pending());
    drop(loading);
    while ask(&setup.registry, "").await.is_err() {
        tokio::task::yield_now().await;
    }
    let (first, second) = tokio::join!(setup.load(), setup.load());
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(setup.source.loads.load(Ordering::SeqCst), 3);
    assert!(setup.registry.turns.lock().expect("no panics").is_empty());
}

#[tokio::test]
async fn the_timeout_of_a_request_is_kept() {
    let setup = setup(&[1]);
    setup.load().await.expect("it loads");
    let _all = setup.around.gate.clone().acquire_many_owned(1000).await.expect("it is open");
    let timeout = Some(std::time::Duration::from_millis(5));
    let served = setup.registry.find("a", "").expect("it is ready");
    let request = InferRequest { timeout, ..InferRequest::default() };
    let error = served.infer(request).await.err().expect("nobody answers");
    assert_eq!(error, InferError::deadline("the request's timeout of 5000 µs is over"));
    assert_eq!((served.statistics().fail.count, served.statistics().success.count), (1, 0));
}

#[tokio::test]
async fn at_the_end_models_go_at_once() {
    let setup = setup(&[1, 2]);
    setup.load().await.expect("it loads");
    setup.registry.add_fixed(Echo::model("b", 1, &setup.around)).expect("the name is free");
    assert_eq!(setup.around.alive.load(Ordering::SeqCst), 3);
    let Setup { registry, around, .. } = setup;
    drop(registry);
    assert_eq!(around.alive.load(Ordering::SeqCst), 0);
}

/// Eight threads ask while another changes the model 200 times.
fn ask_while(changes: impl AsyncFn(&Setup, usize), allowed: &[InferErrorKind]) -> (usize, usize) {
    const ASKING: usize = 8;
    let setup = setup(&[1]);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(setup.load()).expect("it loads");
    let (has_ended, begin) = (AtomicBool::new(false), Barrier::new(ASKING + 1));
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        for _ in 0..ASKING {
            threads.spawn(|| {
                let runtime = Builder::new_current_thread().enable_all().build();
                let runtime = runtime.expect("a runtime");
                begin.wait();
                while !has_ended.load(Ordering::SeqCst) {
                    match runtime.block_on(ask(&setup.registry, "")) {
                        Ok(_) => answered.fetch_add(1, Ordering::SeqCst),
                        Err(kind) => {
                            assert!(allowed.contains(&kind), "{kind:?}");
                            refused.fetch_add(1, Ordering::SeqCst)
                        }
                    };
                }
            });
        }
        begin.wait();
        for round in 0..200 {
            setup.set(&[round as u64 + 1, round as u64 + 2]);
            runtime.block_on(changes(&setup, round));
        }
        has_ended.store(true, Ordering::SeqCst);
    });
    let left = setup.registry.served("", "").expect("all").len();
    runtime.block_on(setup.wait_alive(left));
    (answered.into_inner(), refused.into_inner())
}

#[test]
fn nobody_is_refused_while_a_model_is_replaced() {
    let changes = async |setup: &Setup, _| setup.load().await.expect("it loads");
    let (answered, refused) = ask_while(changes, &[]);
    assert!(answered > 0);
    assert_eq!(refused, 0);
}

#[test]
fn models_come_and_go_while_they_are_asked() {
    let changes = async |setup: &Setup, round: usize| match round % 2 {
        0 => setup.registry.unload("a").await.expect("it was there"),
        _ => setup.load().await.expect("it loads"),
    };
    let allowed = [InferErrorKind::NotFound, InferErrorKind::Unavailable];
    let (answered, refused) = ask_while(changes, &allowed);
    assert!(answered > 0 && refused > 0, "{answered} {refused}");
}
