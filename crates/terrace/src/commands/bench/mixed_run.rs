//! Prompts that arrive while others write: how fast both go on, and how long decoding wait.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use terrace_engine::TokenId;

use super::decode_window::DecodeWindow;
use super::engine_run::{EngineRun, MeasuredEngine};
use super::random_prompts::RandomPrompts;
use super::spread::Spread;
use crate::commands::percentiles::Percentiles;

/// One run.
pub struct MixedRun {
    prefill_tokens_per_second: f64,
    decode_tokens_per_second: f64,
    /// Between two tokens of a writer.
    waits: Vec<Duration>,
}

/// Several runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MixedRates {
    pub decoding: usize,
    /// Prompt tokens a second of the one that reads.
    pub prefill_tokens_per_second: Spread,
    /// New tokens a second of all decoding.
    pub decode_tokens_per_second: Spread,
    pub itl_ms: Percentiles,
}

impl MixedRun {
    /// The decoding' prompts are best known to the engine already. New prompts as long as theirs
    /// come one after the other until the decoding have their tokens.
    pub fn measure(
        engine: &MeasuredEngine,
        decoding: &[Vec<TokenId>],
        new_tokens: usize,
        prompts: &mut RandomPrompts,
    ) -> Result<Self> {
        let prompt_tokens = decoding.first().context("nobody writes")?.len();
        let start = Instant::now();
        // Before any prompt is read, which could take the pages of what they know.
        let run = EngineRun::submit(engine, decoding, new_tokens)?;
        thread::scope(|scope| {
            let writing = scope.spawn(|| run.token_times());
            let mut read_at = Vec::new();
            while !writing.is_finished() {
                let prompt = prompts.next(prompt_tokens);
                EngineRun::submit(engine, &[prompt], 1)?.token_times()?;
                read_at.push(start.elapsed());
            }
            let written = writing.join().expect("the decoding do not panic")?;
            Self::of(&written, &read_at, prompt_tokens)
        })
    }

    /// `written` has for each writer when its tokens came, `read_at` when each prompt was read.
    fn of(written: &[Vec<Duration>], read_at: &[Duration], prompt_tokens: usize) -> Result<Self> {
        let window = DecodeWindow::of(written)
            .context("one writer had ended before another began; give more --new-tokens")?;
        let end = written.iter().flatten().max().context("nothing was written")?;
        // What was read after the decoding had ended was read alone.
        let read = &read_at[..read_at.partition_point(|time| time <= end)];
        let prefill_tokens_per_second = read
            .last()
            .map_or(0.0, |last| (read.len() * prompt_tokens) as f64 / last.as_secs_f64());
        let gaps = written.iter().flat_map(|times| times.windows(2));
        let waits = gaps.map(|pair| pair[1] - pair[0]).collect();
        Ok(MixedRun {
            prefill_tokens_per_second,
            decode_tokens_per_second: window.tokens_per_second(),
            waits,
        })
    }
}

impl MixedRates {
    /// Of at least one run.
    pub fn of(decoding: usize, runs: &[MixedRun]) -> Result<Self> {
        let waits: Vec<Duration> = runs.iter().flat_map(|run| run.waits.iter().copied()).collect();
        Ok(MixedRates {
            decoding,
            prefill_tokens_per_second: Spread::of(
                runs.iter().map(|run| run.prefill_tokens_per_second).collect(),
            ),
            decode_tokens_per_second: Spread::of(
                runs.iter().map(|run| run.decode_tokens_per_second).collect(),
            ),
            itl_ms: Percentiles::of(&waits).context("nothing was written")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_after_the_writers_have_ended_does_not_count() {
        let ms = Duration::from_millis;
        let written = [vec![ms(100), ms(200), ms(400)], vec![ms(100), ms(250), ms(500)]];
        let read_at = [ms(150), ms(500), ms(501)];
        let run = MixedRun::of(&written, &read_at, 10).expect("both write");
        assert_eq!((run.prefill_tokens_per_second, run.decode_tokens_per_second), (40.0, 10.0));
        let rates = MixedRates::of(2, &[run]).expect("one run");
        assert_eq!((rates.itl_ms.p50, rates.itl_ms.largest), (150.0, 250.0));
        assert_eq!(
            MixedRun::of(&written, &[ms(600)], 10).expect("both write").prefill_tokens_per_second,
            0.0
        );
    }
}
