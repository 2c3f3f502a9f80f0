//! The window of a run in which all requests decode.
//!
//! It begins when the last request has its first token, and ends when the first one has its last.
//! Requests advance together, one token a step, so the same number of tokens is counted of each,
//! up to the moment when the slowest reader has seen its own.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeWindow {
    /// Of all requests together.
    pub tokens: usize,
    pub time: Duration,
}

impl DecodeWindow {
    /// `token_times` has for each request when its tokens came, in order. `None` when one ended
    /// before another began.
    pub fn of(token_times: &[Vec<Duration>]) -> Option<Self> {
        let start = last_first_token(token_times)?;
        let inside = token_times.iter().map(|times| {
            let before = times.partition_point(|&time| time <= start);
            &times[before..]
        });
        let steps = inside.clone().map(<[Duration]>::len).min().filter(|&steps| steps > 0)?;
        let end = inside.map(|times| times[steps - 1]).max()?;
        Some(DecodeWindow { tokens: steps * token_times.len(), time: end - start })
    }

    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.time.as_secs_f64()
    }
}

/// When the last request had its first token.
pub fn last_first_token(token_times: &[Vec<Duration>]) -> Option<Duration> {
    let firsts = token_times.iter().map(|times| times.first().copied());
    firsts.collect::<Option<Vec<_>>>()?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(times: &[&[u64]]) -> Vec<Vec<Duration>> {
        times
            .iter()
            .map(|times| times.iter().map(|&t| Duration::from_millis(t)).collect())
            .collect()
    }

    #[track_caller]
    fn check(times: &[&[u64]], want: Option<(usize, u64)>) {
        let window = DecodeWindow::of(&ms(times));
        assert_eq!(window.map(|w| (w.tokens, w.time.as_millis() as u64)), want);
    }

    #[test]
    fn only_steps_in_which_all_write_count() {
        // The second begins at 30; the first ends at 50, when the second, a moment later, has two.
        check(&[&[10, 20, 30, 40, 50], &[30, 41, 51, 60, 70]], Some((4, 21)));
        check(&[&[10, 20, 30]], Some((2, 20)));
    }

    #[test]
    fn readers_of_one_step_may_come_in_any_order() {
        check(&[&[10, 20, 31], &[11, 21, 30]], Some((4, 20)));
        check(&[&[11, 21, 31], &[10, 20, 30], &[12, 22, 32]], Some((6, 20)));
    }

    #[test]
    fn there_may_be_no_such_window() {
        check(&[&[10, 20], &[30, 40]], None);
        check(&[&[10]], None);
        check(&[&[10, 20], &[]], None);
        check(&[], None);
    }
}
