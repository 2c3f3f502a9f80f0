//! The four ways in which click-through models are deployed: one or several models on one or
//! several devices. Caches in host memory stand in for those of several GPUs.

use terrace_device::Device;
use terrace_embedding::PsConfig;
use terrace_engine::Error;
use terrace_engine::predict::{
    BatchPolicy, BatchStats, Computed, PredictError, PredictExecutor, PredictModel, PredictParts,
    Samples,
};

use crate::golden_click_model::{Golden, check};

const TWO: [Device; 2] = [Device::Cpu, Device::Cpu];

/// All golden requests, from several threads at once.
fn ask_all(golden: &Golden, model: &PredictModel) {
    let cases = golden.cases();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (request, want) in golden.cases() {
                    let samples = model.check(request).expect("it adds up");
                    let found = model.predict_blocking(samples).expect("an answer");
                    check(model.name(), &found.numbers, &want);
                }
            });
        }
    });
    let asked: usize = cases.iter().map(|(_, want)| want.len()).sum();
    let answered = |(samples, batches): (&usize, &BatchStats)| samples * batches.count as usize;
    let counted: usize = model.stats().batches.iter().map(answered).sum();
    assert_eq!(counted, 4 * asked);
}

/// On both devices, with caches that are empty at the start.
fn on_both(config: &mut PsConfig) {
    for model in &mut config.models {
        model.devices = vec![0, 1];
        let cache = model.gpu_cache.as_mut().expect("golden models have one");
        cache.is_filled_at_start = false;
    }
}

fn cached(golden: &Golden, cache: usize) -> usize {
    let cache = golden.server.tables()[0].caches()[cache].cache();
    cache.keys_of(0..cache.sets()).expect("keys").len()
}

#[test]
fn instances_of_one_model_share_its_cache() {
    let golden = Golden::open("dlrm");
    assert_eq!(golden.server.tables()[0].caches().len(), 1);
    ask_all(&golden, &golden.start(3, None));
}

/// Fails with every batch, or takes its thread along.
struct Broken {
    panics: bool,
}

impl PredictExecutor for Broken {
    fn run(&mut self, _: &Samples, _: &mut [f32]) -> Result<Computed, Error> {
        assert!(!self.panics, "on purpose");
        Err(Error::Predict("on purpose".to_owned()))
    }

    fn replace_weights(&mut self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_models_faults_disturb_no_other() {
    let (dlrm, wdl) = (Golden::open("dlrm"), Golden::open("wdl"));
    let models = [dlrm.start(1, None), wdl.start(2, None)];
    for panics in [false, true] {
        let broken = PredictParts {
            name: "broken".to_owned(),
            shape: models[0].shape().clone(),
            batching: BatchPolicy { max_samples: 128, joining: None, max_waiting: 8 },
            executors: vec![Box::new(Broken { panics })],
            weights: None,
        };
        let broken = PredictModel::start(broken).expect("it starts");
        let (request, _) = dlrm.cases().remove(0);
        let samples = broken.check(request).expect("it adds up");
        let error = broken.predict_blocking(samples).expect_err("it is broken");
        assert_eq!(matches!(error, PredictError::Failed(_)), !panics, "{error}");
        std::thread::scope(|scope| {
            scope.spawn(|| ask_all(&dlrm, &dlrm.start(1, None)));
            scope.spawn(|| ask_all(&wdl, &wdl.start(2, None)));
        });
    }
    assert!(models.iter().all(PredictModel::is_running));
}

#[test]
fn one_model_on_several_devices_has_a_cache_on_each() {
    let golden = Golden::open_on("dlrm", &TWO, on_both);
    assert_eq!(golden.server.tables()[0].caches().len(), 2);
    ask_all(&golden, &golden.start_model(0, &[1], None));
    assert_eq!(cached(&golden, 0), 0, "nobody has asked through it");
    let second = cached(&golden, 1);
    assert!(second > 0);
    ask_all(&golden, &golden.start_model(0, &[0, 0, 1], None));
    assert!(cached(&golden, 0) > 0 && cached(&golden, 1) >= second);
}

#[test]
fn several_models_on_several_devices_share_tables_and_caches() {
    let golden = Golden::open_on("dlrm", &TWO, |config| {
        let mut copy = config.models[0].clone();
        copy.name = "copy".to_owned();
        config.models.push(copy);
        on_both(config);
    });
    assert_eq!(golden.server.tables().len(), 1, "both have the same files");
    ask_all(&golden, &golden.start_model(0, &[0], None));
    let first = cached(&golden, 0);
    let hits = || golden.server.tables()[0].counters().hits;
    let before = hits();
    ask_all(&golden, &golden.start_model(1, &[0], None));
    assert_eq!(cached(&golden, 0), first, "the other model finds what the first has brought");
    assert!(hits() > before);
    ask_all(&golden, &golden.start_model(1, &[1, 0], None));
}
