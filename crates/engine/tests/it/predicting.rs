//! Click-through models over tables: golden answers, batches of several requests, instances that
//! share tables, weights that are replaced, requests that are late or too many.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use terrace_embedding::{DenseWeights, KeyKind};
use terrace_engine::Error;
use terrace_engine::predict::{
    BatchPolicy, Computed, Joining, PredictError, PredictExecutor, PredictModel, PredictParts,
    PredictTables, RequestShape, Samples, SlotsOfTable, VcsrRequest, WeightSource,
};
use terrace_model::ctr::{CtrNetwork, CtrWeights};
use terrace_testkit::golden_set;

use crate::golden_click_model::{Golden, check};

const MODELS: [&str; 5] = ["dcn", "dcnv2", "deepfm", "dlrm", "wdl"];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime")
}

#[test]
fn golden_requests_get_golden_answers() {
    for name in MODELS {
        let golden = Golden::open(name);
        let model = golden.start(1, None);
        for (request, want) in golden.cases() {
            let samples = model.check(request).expect("it adds up");
            let found = model.predict_blocking(samples).expect("an answer");
            assert_eq!(found.batch, found.samples, "each is computed alone");
            check(name, &found.numbers, &want);
        }
    }
}

#[test]
fn requests_computed_together_get_the_same_answers() {
    for name in MODELS {
        let golden = Golden::open(name);
        let delay = Duration::from_millis(200);
        let model = golden.start(2, Some(Joining { preferred: Vec::new(), delay }));
        let largest = golden.cases().into_iter().max_by_key(|(_, want)| want.len());
        let (request, want) = largest.expect("there are cases");
        let samples = model.check(request).expect("it adds up");
        let width = model.shape().outputs;
        let answers = runtime().block_on(async {
            let parts = (0..samples.count).map(|at| model.predict(samples.part(at..at + 1), None));
            futures_util::future::join_all(parts).await
        });
        let mut largest_batch = 0;
        for (at, answer) in answers.into_iter().enumerate() {
            let answer = answer.expect("an answer");
            largest_batch = largest_batch.max(answer.batch);
            check(name, &answer.numbers, &want[at * width..(at + 1) * width]);
        }
        assert!(largest_batch > 1, "{name}: none were computed together");
        let batches = model.stats().batches;
        let computed: u64 = batches.iter().map(|(size, it)| *size as u64 * it.count).sum();
        assert_eq!(computed, samples.count as u64);
    }
}

#[test]
fn an_unknown_table_or_another_width_is_said() {
    let golden = Golden::open("wdl");
    let mut model = golden.config.models[0].clone();
    model.tables.pop();
    let find = |model| PredictTables::find(&golden.server, model, golden.network.inputs());
    let error = find(&model).err().expect("a table is missing").to_string();
    assert!(error.contains("2 embedding layers") && error.contains("1 tables"), "{error}");
    let mut model = golden.config.models[0].clone();
    model.tables.swap(0, 1);
    let error = find(&model).err().expect("rows of another width").to_string();
    assert!(error.contains("have 16 numbers") && error.contains("has 1"), "{error}");
}

/// Weights as they would come over Kafka.
#[derive(Default)]
struct Newest(Mutex<Option<Arc<DenseWeights>>>);

impl WeightSource for Newest {
    fn newest(&self) -> Option<Arc<DenseWeights>> {
        self.0.lock().expect("nobody has panicked").clone()
    }
}

/// Gives the number of weight sets that it has taken, and computes while it is let.
struct Counting {
    taken: f32,
    held: Arc<Held>,
    /// That weights must fit.
    network: Arc<CtrNetwork>,
}

/// Whether the instance is to wait, and how many batches it has begun.
#[derive(Default)]
struct Held {
    is_held: AtomicBool,
    begun: AtomicUsize,
}

impl Held {
    fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::SeqCst);
    }

    async fn has_begun(&self) {
        while self.begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

impl PredictExecutor for Counting {
    fn run(&mut self, _: &Samples, out: &mut [f32]) -> Result<Computed, Error> {
        let deadline = Instant::now() + Duration::from_secs(30);
        self.held.begun.fetch_add(1, Ordering::SeqCst);
        while self.held.is_held.load(Ordering::SeqCst) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        out.fill(self.taken);
        Ok(Computed { input: Instant::now(), compute: Instant::now() })
    }

    fn replace_weights(&mut self, safetensors: &[u8]) -> Result<(), Error> {
        CtrWeights::from_safetensors(&self.network, safetensors)?;
        self.taken += 1.0;
        Ok(())
    }
}

/// A model of one key a sample, whose instance is held on demand.
fn counting(
    max_waiting: usize,
    weights: Option<Arc<dyn WeightSource>>,
) -> (PredictModel, Arc<Held>) {
    let network = Golden::open("wdl").network;
    let held = Arc::<Held>::default();
    let executor = Counting { taken: 0.0, held: Arc::clone(&held), network };
    let shape = RequestShape {
        dense: 0,
        tables: vec![SlotsOfTable { slots: 1, keys_most: 1 }],
        key_kind: KeyKind::I64,
        outputs: 1,
        max_samples: 4,
    };
    let model = PredictModel::start(PredictParts {
        name: "counting".to_owned(),
        shape,
        batching: BatchPolicy { max_samples: 4, joining: None, max_waiting },
        executors: vec![Box::new(executor)],
        weights,
    });
    (model.expect("it starts"), held)
}

fn sample(model: &PredictModel) -> Samples {
    let request = VcsrRequest { dense: Vec::new(), keys: vec![7], row_offsets: vec![0, 1] };
    model.check(request).expect("it adds up")
}

#[test]
fn newer_weights_take_over_between_batches_and_wrong_ones_are_left_out() {
    let source = Arc::new(Newest::default());
    let (model, _) = counting(8, Some(Arc::clone(&source) as Arc<dyn WeightSource>));
    let ask = || model.predict_blocking(sample(&model)).expect("an answer").numbers[0];
    assert_eq!(ask().to_bits(), 0.0f32.to_bits());
    let safetensors = std::fs::read(golden_set("ctr").join("wdl/weights.safetensors"));
    let safetensors = safetensors.expect("weights by name");
    let put = |version, safetensors: &[u8]| {
        let weights = DenseWeights { version, safetensors: safetensors.to_vec() };
        *source.0.lock().expect("nobody has panicked") = Some(Arc::new(weights));
    };
    put(5, &safetensors);
    assert_eq!(ask().to_bits(), 1.0f32.to_bits());
    assert_eq!(ask().to_bits(), 1.0f32.to_bits(), "each version is taken once");
    put(6, b"no safetensors");
    assert_eq!(ask().to_bits(), 1.0f32.to_bits(), "those before stay");
    let stats = model.stats();
    assert_eq!((stats.weight_versions, stats.refused_weights), (1, 1));
}

#[test]
fn too_many_and_late_requests_are_refused() {
    let (model, held) = counting(2, None);
    held.hold(true);
    runtime().block_on(async {
        let first = model.predict(sample(&model), None);
        let late = model.predict(sample(&model), Some(Duration::from_millis(20)));
        let third = model.predict(sample(&model), None);
        let release = async {
            while model.waiting() < 2 {
                tokio::task::yield_now().await;
            }
            let fourth = model.predict(sample(&model), None).await;
            assert_eq!(fourth.expect_err("two wait"), PredictError::Busy { waiting: 2 });
            std::thread::sleep(Duration::from_millis(40));
            held.hold(false);
        };
        let others = async {
            held.has_begun().await;
            futures_util::future::join3(late, third, release).await
        };
        let (first, (late, third, ())) = futures_util::future::join(first, others).await;
        first.expect("an answer");
        assert_eq!(late.expect_err("its time is over"), PredictError::Late { timeout_ms: 20 });
        third.expect("an answer");
    });
}

#[test]
fn those_who_wait_for_a_busy_model_are_answered() {
    let (model, held) = counting(8, None);
    held.hold(true);
    let answers = runtime().block_on(async {
        let asked = [model.predict(sample(&model), None), model.predict(sample(&model), None)];
        let ended = async {
            while model.waiting() < 1 {
                tokio::task::yield_now().await;
            }
            held.hold(false);
        };
        let all = futures_util::future::join_all(asked);
        let (answers, ()) = futures_util::future::join(all, ended).await;
        answers
    });
    drop(model);
    answers.into_iter().for_each(|answer| drop(answer.expect("an answer")));
}
