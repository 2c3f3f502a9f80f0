//! How far an output has come in its grammar.

use std::sync::{Arc, Mutex};

use llguidance::Matcher;

use super::allowed_tokens::AllowedTokens;
use super::grammar_fault::GrammarFault;
use super::guide_budget::WorkDone;
use super::shared_work::SharedWork;
use terrace_cache::TokenId;

pub struct GuideState {
    reading: Mutex<Reading>,
}

struct Reading {
    matcher: Matcher,
    shared: Arc<SharedWork>,
    work: WorkDone,
    /// Tokens of the output that the matcher has seen.
    read: usize,
    /// What may follow them, once somebody has asked.
    allowed: Option<Arc<AllowedTokens>>,
    fault: Option<GrammarFault>,
}

impl GuideState {
    pub(super) fn new(matcher: Matcher, shared: Arc<SharedWork>) -> Self {
        let work = WorkDone::default();
        let reading = Reading { matcher, shared, work, read: 0, allowed: None, fault: None };
        GuideState { reading: Mutex::new(reading) }
    }

    #[cfg(test)]
    pub(super) fn work(&self) -> WorkDone {
        self.reading.lock().expect("the matcher catches its panics").work
    }

    /// Why the grammar can say nothing any more, if it cannot.
    pub fn fault(&self) -> Option<GrammarFault> {
        self.reading.lock().expect("the matcher catches its panics").fault
    }

    /// What may follow `output`, which goes on from what was asked before. When the grammar is
    /// complete, that is the tokens that end an output.
    ///
    /// An error if the grammar takes more work or memory than it may, or cannot go on at all.
    pub fn allowed_after(&self, output: &[TokenId]) -> Result<Arc<AllowedTokens>, String> {
        let mut reading = self.reading.lock().expect("the matcher catches its panics");
        let allowed = match reading.fault {
            Some(fault) => Err(fault),
            None => reading.allowed_after(output),
        };
        allowed.map_err(|fault| {
            reading.fault = Some(fault);
            format!("the grammar cannot be followed: {fault}")
        })
    }
}

impl Reading {
    fn allowed_after(&mut self, output: &[TokenId]) -> Result<Arc<AllowedTokens>, GrammarFault> {
        assert!(self.read <= output.len(), "{} of {} tokens", self.read, output.len());
        let new = &output[self.read..];
        if !new.is_empty() {
            self.allowed = None;
            self.matcher.consume_tokens(new).map_err(fault)?;
            self.read = output.len();
        }
        if let Some(allowed) = &self.allowed {
            return Ok(Arc::clone(allowed));
        }
        let is_complete = self.matcher.is_stopped();
        let bits = self.matcher.compute_mask_or_eos().map_err(fault)?;
        if !is_complete {
            self.work.add(self.matcher.last_step_stats().map_err(fault)?);
            self.work.check(self.read, self.shared.count(new.len()))?;
            if self.shared.is_too_large() {
                return Err(GrammarFault::Memory);
            }
        }
        let allowed = Arc::new(AllowedTokens::new(bits));
        self.allowed = Some(Arc::clone(&allowed));
        Ok(allowed)
    }
}

fn fault(error: impl std::fmt::Display) -> GrammarFault {
    GrammarFault::of_message(&error.to_string())
}
