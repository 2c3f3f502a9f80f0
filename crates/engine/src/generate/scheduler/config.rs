//! How much one step may do, and how long a queue may be.

use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Rows of one step, prompt tokens and new tokens together.
    pub max_step_tokens: usize,
    /// Outputs that are made at the same time.
    pub max_seqs: usize,
    /// Requests that may wait for their turn.
    pub max_waiting: usize,
    /// Steps of waiting that count as one priority more.
    pub aging_steps: u32,
}

impl SchedulerConfig {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |option, value: usize, rule: &str| {
            Err(Error::BadOption { option, value: value.to_string(), rule: rule.into() })
        };
        if self.max_seqs == 0 {
            return refuse("max_batch_size", 0, "it must be at least 1");
        }
        if self.max_step_tokens < self.max_seqs {
            let rule = "it must be at least max_batch_size, so that every answer can go on";
            return refuse("max_step_tokens", self.max_step_tokens, rule);
        }
        if self.max_waiting == 0 {
            return refuse("max_waiting", 0, "it must be at least 1");
        }
        if self.aging_steps == 0 {
            return refuse("aging_steps", 0, "it must be at least 1");
        }
        Ok(())
    }
}
