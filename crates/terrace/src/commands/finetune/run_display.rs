//! What a run shows while it goes on, and what it writes down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use terrace_tune::Error;
use terrace_tune::record::{LogKind, Report, RunLog, RunStart, StepRecord, ValidationRecord};
use terrace_tune::run::{Progress, RunEvents};

use super::finetune_args::Verbosity;
use crate::byte_size::ByteSize;
use crate::progress;

pub struct RunDisplay {
    pub out_dir: PathBuf,
    pub logger: LogKind,
    pub verbosity: Verbosity,
    /// What was run, for the report.
    pub about: BTreeMap<String, String>,
    pub stop: Arc<AtomicBool>,
    logs: Vec<Box<dyn RunLog>>,
    bar: ProgressBar,
    validation: ProgressBar,
    /// Of steps that were shown.
    tokens: u64,
    seconds: f64,
}

impl RunDisplay {
    pub fn new(
        out_dir: &Path,
        logger: LogKind,
        verbosity: Verbosity,
        about: BTreeMap<String, String>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        RunDisplay {
            out_dir: out_dir.into(),
            logger,
            verbosity,
            about,
            stop,
            logs: Vec::new(),
            bar: ProgressBar::hidden(),
            validation: ProgressBar::hidden(),
            tokens: 0,
            seconds: 0.0,
        }
    }

    /// Takes the bars away and draws the report once more.
    pub fn finish(&self) -> Result<(), Error> {
        self.validation.finish_and_clear();
        self.bar.finish_and_clear();
        self.draw()
    }

    fn draw(&self) -> Result<(), Error> {
        let settings = self.about.iter().map(|(name, value)| (name.clone(), value.clone()));
        Report::read(&self.out_dir, settings.collect())?.write()?;
        Ok(())
    }

    /// Above the bars.
    fn say(&self, from: Verbosity, text: &str) {
        if from <= self.verbosity {
            self.bar.suspend(|| println!("{text}"));
        }
    }
}

impl RunEvents for RunDisplay {
    fn begin(&mut self, progress: &Progress, steps: u64) -> Result<(), Error> {
        let start = match progress.step {
            0 => RunStart::New,
            step => RunStart::Resumed { step },
        };
        self.logs = self.logger.open(&self.out_dir, start)?;
        if Verbosity::Some <= self.verbosity {
            self.bar = progress::steps(steps);
            self.bar.set_position(progress.step);
        }
        if 0 < progress.step {
            self.say(Verbosity::Some, &format!("goes on after step {}", progress.step));
        }
        Ok(())
    }

    fn step(&mut self, record: &StepRecord) -> Result<(), Error> {
        for log in &mut self.logs {
            log.step(record)?;
        }
        self.tokens += record.tokens;
        self.seconds += record.seconds;
        let memory = ByteSize(record.peak_memory_bytes as usize);
        let speed = self.tokens as f64 / self.seconds.max(1e-9);
        self.bar.set_position(record.step);
        self.bar.set_message(format!("loss {:.4}, {speed:.0} tokens/s, {memory}", record.loss));
        let StepRecord { step, loss, learning_rate, gradient_norm, seconds, .. } = *record;
        self.say(
            Verbosity::More,
            &format!(
                "step {step}: loss {loss:.6}, learning rate {learning_rate:.3e}, gradient norm \
                 {gradient_norm:.4}, {seconds:.2} s, {memory}"
            ),
        );
        Ok(())
    }

    fn validation_begins(&mut self, batches: usize) {
        if Verbosity::Some <= self.verbosity {
            self.validation = progress::counted("validating", "batches", batches);
        }
    }

    fn validation_batch(&mut self) {
        self.validation.inc(1);
        if self.validation.position() == self.validation.length().unwrap_or(0) {
            self.validation.finish_and_clear();
        }
    }

    fn validation(&mut self, record: &ValidationRecord) -> Result<(), Error> {
        for log in &mut self.logs {
            log.validation(record)?;
        }
        let ValidationRecord { step, loss, metric, cases, .. } = *record;
        let right = metric.map(|share| format!(", {:.1}% of answers right", 100.0 * share));
        let right = right.unwrap_or_default();
        let text = format!("step {step}: validation loss {loss:.6} over {cases} cases{right}");
        self.say(Verbosity::Some, &text);
        self.draw()
    }

    fn saved(&mut self, path: &Path) {
        self.say(Verbosity::All, &format!("saved {}", path.display()));
    }

    fn note(&mut self, text: &str) {
        self.say(Verbosity::Some, text);
    }

    fn is_asked_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
