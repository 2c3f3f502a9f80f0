//! What the clients of a service saw: rates and waits, from the times of their events.

use std::time::Duration;

use serde::Serialize;

use super::streamed_answer::StreamedAnswer;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ServeTimes {
    /// New tokens of all streams, from the last stream's first event to the first stream's last.
    ///
    /// An event may carry several tokens, or a token no text; so each event counts as its
    /// stream's tokens, which the server tells at the end, divided by its events.
    /// `None` when a stream ended before another began.
    pub written_per_second: Option<f64>,
    /// From the request to its first event.
    pub first_token_ms_median: f64,
    pub first_token_ms_largest: f64,
    /// Between two events of a stream.
    pub next_token_ms_median: f64,
    pub next_token_ms_p99: f64,
    /// Events of all streams, and their tokens.
    pub events: usize,
    pub tokens: usize,
}

impl ServeTimes {
    /// `None` when a stream had less than two events.
    pub fn of(answers: &[StreamedAnswer]) -> Option<Self> {
        if answers.is_empty() || answers.iter().any(|answer| answer.events.len() < 2) {
            return None;
        }
        let first = sorted_ms(answers.iter().map(|answer| answer.events[0] - answer.sent));
        let gaps = answers.iter().flat_map(|answer| answer.events.windows(2));
        let next = sorted_ms(gaps.map(|pair| pair[1] - pair[0]));
        Some(ServeTimes {
            written_per_second: written_per_second(answers),
            first_token_ms_median: quantile(&first, 0.5),
            first_token_ms_largest: quantile(&first, 1.0),
            next_token_ms_median: quantile(&next, 0.5),
            next_token_ms_p99: quantile(&next, 0.99),
            events: answers.iter().map(|answer| answer.events.len()).sum(),
            tokens: answers.iter().map(|answer| answer.tokens).sum(),
        })
    }
}

fn written_per_second(answers: &[StreamedAnswer]) -> Option<f64> {
    let start = *answers.iter().filter_map(|answer| answer.events.first()).max()?;
    let end = *answers.iter().filter_map(|answer| answer.events.last()).min()?;
    let inside = |answer: &StreamedAnswer| {
        let events = answer.events.iter().filter(|&&time| start < time && time <= end).count();
        events as f64 * answer.tokens as f64 / answer.events.len() as f64
    };
    let tokens: f64 = answers.iter().map(inside).sum();
    (start < end).then(|| tokens / (end - start).as_secs_f64())
}

fn sorted_ms(times: impl Iterator<Item = Duration>) -> Vec<f64> {
    let mut ms: Vec<f64> = times.map(|time| time.as_secs_f64() * 1e3).collect();
    ms.sort_by(f64::total_cmp);
    ms
}

/// The number that so large a part of the others does not exceed.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(sent: u64, events: &[u64], tokens: usize) -> StreamedAnswer {
        let ms = Duration::from_millis;
        StreamedAnswer { sent: ms(sent), events: events.iter().map(|&t| ms(t)).collect(), tokens }
    }

    #[test]
    fn only_the_time_in_which_all_write_counts() {
        let first = answer(0, &[100, 200, 300, 400, 500], 5);
        // Two tokens an event.
        let second = answer(50, &[300, 400, 600], 6);
        let times = ServeTimes::of(&[first, second]).expect("both write from 300 to 500");
        let rate = times.written_per_second.expect("a rate");
        assert!((rate - (2.0 + 2.0) / 0.2).abs() < 1e-9, "{times:?}");
        assert_eq!((times.first_token_ms_median, times.first_token_ms_largest), (100.0, 250.0));
        assert_eq!((times.next_token_ms_median, times.next_token_ms_p99), (100.0, 200.0));
        assert_eq!((times.events, times.tokens), (8, 11));
    }

    #[test]
    fn streams_that_never_write_together_have_no_rate() {
        let apart = ServeTimes::of(&[answer(0, &[1, 2], 2), answer(0, &[3, 4], 2)]);
        assert_eq!(apart.expect("waits are known").written_per_second, None);
        assert_eq!(ServeTimes::of(&[answer(0, &[1], 1)]), None);
        assert_eq!(ServeTimes::of(&[]), None);
    }

    #[test]
    fn quantiles_are_numbers_that_were_seen() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|part| quantile(&hundred, part)), [50.0, 99.0, 100.0]);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
    }
}
