//! What the clients of a service saw: rates and waits, from the times of their events.

use std::time::Duration;

use serde::Serialize;

use super::duration_bars::DurationBars;
use super::streamed_output::StreamedOutput;
use crate::commands::percentiles::Percentiles;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServeTimes {
    /// Outputs and their tokens, from the first request to the last event.
    pub requests_per_second: f64,
    pub tokens_per_second: f64,
    /// New tokens of all outputs, from the last one's first event to the first one's last.
    ///
    /// An event may carry several tokens, or a token no text; so each event counts as its
    /// output's tokens, which the server tells at the end, divided by its events.
    /// `None` when an output ended before another began.
    pub decode_tokens_per_second: Option<f64>,
    /// From a request to its first event.
    pub ttft_ms: Percentiles,
    pub ttft_bars: DurationBars,
    /// Between two events of an output; `None` when none has two.
    pub itl_ms: Option<Percentiles>,
    pub itl_bars: DurationBars,
    /// Events of all outputs, and their tokens.
    pub events: usize,
    pub tokens: usize,
}

impl ServeTimes {
    /// `None` when there is no output.
    pub fn of(outputs: &[StreamedOutput]) -> Option<Self> {
        let first: Vec<Duration> =
            outputs.iter().map(|output| output.events[0] - output.sent).collect();
        let gaps = outputs.iter().flat_map(|output| output.events.windows(2));
        let next: Vec<Duration> = gaps.map(|pair| pair[1] - pair[0]).collect();
        let start = outputs.iter().map(|output| output.sent).min()?;
        let end = *outputs.iter().filter_map(|output| output.events.last()).max()?;
        let seconds = (end - start).as_secs_f64();
        let tokens = outputs.iter().map(|output| output.tokens).sum();
        Some(ServeTimes {
            requests_per_second: outputs.len() as f64 / seconds,
            tokens_per_second: tokens as f64 / seconds,
            decode_tokens_per_second: decode_tokens_per_second(outputs),
            ttft_ms: Percentiles::of(&first)?,
            ttft_bars: DurationBars::of(&first),
            itl_ms: Percentiles::of(&next),
            itl_bars: DurationBars::of(&next),
            events: outputs.iter().map(|output| output.events.len()).sum(),
            tokens,
        })
    }
}

fn decode_tokens_per_second(outputs: &[StreamedOutput]) -> Option<f64> {
    let start = *outputs.iter().filter_map(|output| output.events.first()).max()?;
    let end = *outputs.iter().filter_map(|output| output.events.last()).min()?;
    let inside = |output: &StreamedOutput| {
        let events = output.events.iter().filter(|&&time| start < time && time <= end).count();
        events as f64 * output.tokens as f64 / output.events.len() as f64
    };
    let tokens: f64 = outputs.iter().map(inside).sum();
    (start < end).then(|| tokens / (end - start).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(sent: u64, events: &[u64], tokens: usize) -> StreamedOutput {
        let ms = Duration::from_millis;
        StreamedOutput { sent: ms(sent), events: events.iter().map(|&t| ms(t)).collect(), tokens }
    }

    #[track_caller]
    fn near(found: f64, want: f64) {
        assert!((found - want).abs() < 1e-9, "{found}, {want}");
    }

    #[test]
    fn rates_are_of_all_the_time_and_of_that_in_which_all_write() {
        let first = output(100, &[200, 300, 400, 500, 600], 5);
        // Two tokens an event.
        let second = output(150, &[400, 500, 700], 6);
        let times = ServeTimes::of(&[first, second]).expect("both answered");
        near(times.requests_per_second, 2.0 / 0.6);
        near(times.tokens_per_second, 11.0 / 0.6);
        near(
            times.decode_tokens_per_second.expect("both write from 400 to 600"),
            (2.0 + 2.0) / 0.2,
        );
        assert_eq!((times.ttft_ms.p50, times.ttft_ms.largest), (100.0, 250.0));
        let next = times.itl_ms.expect("gaps");
        assert_eq!((next.p50, next.p99), (100.0, 200.0));
        assert_eq!((times.events, times.tokens), (8, 11));
    }

    #[test]
    fn outputs_that_are_never_decoded_together_have_no_such_rate() {
        let apart = ServeTimes::of(&[output(0, &[1, 2], 2), output(0, &[3, 4], 2)]);
        assert_eq!(apart.expect("waits are known").decode_tokens_per_second, None);
        let short = ServeTimes::of(&[output(0, &[1], 1)]).expect("an output");
        assert_eq!((short.itl_ms, short.decode_tokens_per_second), (None, None));
        assert_eq!(ServeTimes::of(&[]), None);
    }
}
