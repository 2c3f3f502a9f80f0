//! A model that is measured: its instance alone, and behind its queue.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use terrace_engine::predict::{PredictExecutor, PredictModel, PredictSetup, Samples, TableKeys};
use terrace_kernels::random::SplitMix;

use super::dlrm::Dlrm;
use super::plain_dlrm::PlainDlrm;
use super::report::BatchRow;
use crate::commands::percentiles::Percentiles;

pub struct MeasuredModel<'a> {
    dlrm: &'a Dlrm,
    plain: PlainDlrm,
    executor: Box<dyn PredictExecutor>,
    served: PredictModel,
    /// Of the table.
    rows: usize,
}

/// Runs that are not counted.
const WARM_UP: usize = 10;
/// Batches that take turns, so that rows are not those that were read just before.
const BATCHES: usize = 8;
/// Samples that are compared with f64.
const COMPARED: usize = 64;

impl<'a> MeasuredModel<'a> {
    /// `setup` is called twice: for the instance, and for the model that is served.
    pub fn new(
        dlrm: &'a Dlrm,
        setup: impl Fn() -> Result<PredictSetup>,
        rows: usize,
    ) -> Result<Self> {
        let executor = setup()?.executors()?.pop().context("the model has one instance")?;
        Ok(MeasuredModel {
            dlrm,
            plain: PlainDlrm::new(dlrm),
            executor,
            served: setup()?.start()?,
            rows,
        })
    }

    pub fn measure(&mut self, samples: usize, repeat: usize) -> Result<BatchRow> {
        let batches: Vec<Samples> =
            (0..BATCHES as u64).map(|seed| self.batch(samples, seed)).collect();
        let mut out = vec![f32::NAN; samples];
        let (mut times, mut inputs) = (Vec::new(), Vec::new());
        for run in 0..WARM_UP + repeat {
            let began = Instant::now();
            let computed = self.executor.run(&batches[run % BATCHES], &mut out)?;
            let took = began.elapsed();
            if run >= WARM_UP {
                times.push(took);
                inputs.push((took, computed.input - began));
            }
        }
        self.executor.run(&batches[0], &mut out)?;
        let (best, input) = inputs.into_iter().min().context("at least one run")?;
        let instance = Percentiles::of(&times).context("at least one run")?;
        let served = Percentiles::of(&self.served_times(&batches, repeat)?);
        let served = served.context("at least one run")?;
        Ok(BatchRow {
            precision: "",
            batch: samples,
            best_us: best.as_secs_f64() * 1e6,
            p50_us: instance.p50 * 1e3,
            p99_us: instance.p99 * 1e3,
            input_us: input.as_secs_f64() * 1e6,
            served_p50_us: served.p50 * 1e3,
            served_p99_us: served.p99 * 1e3,
            roofline_us: None,
            difference: self.difference(&batches[0], &out)?,
        })
    }

    fn served_times(&self, batches: &[Samples], repeat: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(repeat);
        for run in 0..WARM_UP + repeat {
            let samples = batches[run % batches.len()].clone();
            let began = Instant::now();
            self.served.predict_blocking(samples)?;
            if run >= WARM_UP {
                times.push(began.elapsed());
            }
        }
        Ok(times)
    }

    /// The largest of probabilities from those in f64.
    fn difference(&self, samples: &Samples, found: &[f32]) -> Result<f64> {
        let mut largest: f64 = 0.0;
        for (found, want) in found.iter().zip(self.plain.predict(samples, COMPARED)) {
            ensure!(found.is_finite(), "a probability is {found}");
            largest = largest.max((f64::from(*found) - want).abs());
        }
        Ok(largest)
    }

    fn batch(&self, samples: usize, seed: u64) -> Samples {
        let Dlrm { slots, dense, .. } = *self.dlrm;
        let mut random = SplitMix::new(seed);
        let keys = (0..samples * slots).map(|_| random.below(self.rows) as i64).collect();
        let offsets = (0..=(samples * slots) as i32).collect();
        let dense = random.numbers(samples * dense).into_iter().map(f32::abs).collect();
        Samples { count: samples, dense, tables: vec![TableKeys::new(keys, offsets)] }
    }
}
