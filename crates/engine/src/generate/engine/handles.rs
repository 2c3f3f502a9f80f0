//! What requests leave behind: kept in the engine, or by name and in files.

use std::sync::Arc;

use terrace_cache::PageKeys;
use terrace_tiers::{HandleExecutor, HandleId, Wait};

use super::{Engine, Events};
use crate::error::Error;
use crate::generate::kept_handle::{KeepAs, KeptHandle};
use crate::generate::kv_handle::KvHandle;
use crate::generate::past::{Origin, Past};
use crate::generate::replay;
use crate::generate::request::{Request, RequestId, Task};
use crate::generate::seq_memory::SeqMemory;
use crate::generate::sequence::Sequence;
use crate::generate::token_event::FinishReason;

impl Engine {
    /// With files for what is kept by name.
    #[must_use]
    pub fn with_handles(mut self, handles: Box<dyn HandleExecutor>) -> Self {
        self.handles = Some(handles);
        self
    }

    /// Keeps what a request with one output has computed when it ends, its open page included,
    /// until the handle is released. If the request fails, the handle is unknown.
    pub fn keep(&mut self, id: RequestId) -> Result<KvHandle, Error> {
        self.check_keepable(id)?;
        Ok(self.scheduler.kept().expect(id))
    }

    /// The same by name, until that is released; whether it came to that is among the
    /// [`handle_results`](Self::handle_results). Of a request that is cancelled nothing is kept.
    pub fn keep_as(&mut self, id: RequestId, keep: KeepAs) -> Result<(), Error> {
        self.check_keepable(id)?;
        self.scheduler.kept().expect_as(id, keep);
        Ok(())
    }

    /// As [`submit`](Self::submit), for a prompt that follows what is kept: its tokens come after
    /// all of the request that left it, with that one's cache and salt. The handle stays.
    pub fn continue_from(
        &mut self,
        handle: KvHandle,
        request: Request,
    ) -> Result<RequestId, Error> {
        let past = Arc::new(self.scheduler.kept().find(handle)?.past(None));
        let request = past.extend(request)?;
        self.check_request(&request)?;
        let id = RequestId(self.next_request);
        let memory = self.new_memory(&request, Some(&past));
        self.insert(id, Arc::new(request), memory, Some(past), Some(handle));
        Ok(id)
    }

    /// The same for a past that may be kept by name, in memory or in a file. What is nowhere is
    /// computed again.
    pub fn continue_past(&mut self, past: Arc<Past>, request: Request) -> Result<RequestId, Error> {
        let request = past.extend(request)?;
        self.check_request(&request)?;
        let id = RequestId(self.next_request);
        self.enqueue(id, Arc::new(request), Some(past))?;
        Ok(id)
    }

    /// Lets go what is kept. Requests that go on from it compute what they have not taken yet.
    pub fn release(&mut self, handle: KvHandle) {
        if let Some(mut kept) = self.scheduler.kept().remove(handle) {
            self.scheduler.release(&mut kept.memory);
        }
    }

    /// The same for what is kept by name.
    pub fn release_named(&mut self, id: HandleId) {
        if let Some(mut kept) = self.scheduler.kept().remove_named(id) {
            self.scheduler.release(&mut kept.memory);
        }
    }

    /// Loads what is in a file, if it must, and keeps it in host memory within the budget of pins;
    /// whether it came to that is among the [`handle_results`](Self::handle_results).
    pub fn pin(&mut self, id: HandleId, past: Arc<Past>) {
        self.has_stepped = true;
        self.scheduler.pin(id, past);
    }

    pub fn unpin(&mut self, id: HandleId) {
        self.scheduler.unpin(id);
    }

    /// What came of [`keep_as`](Self::keep_as) and [`pin`](Self::pin) since the last call.
    pub fn handle_results(&mut self) -> Vec<(HandleId, Result<KeptHandle, Error>)> {
        self.scheduler.take_handle_results()
    }

    /// Names whose pages are in memory.
    pub fn resident_handles(&mut self) -> Vec<HandleId> {
        self.scheduler.kept().resident().collect()
    }

    /// A request with one output that is among the last that have ended.
    pub fn recent(&self, id: RequestId) -> Option<Arc<Past>> {
        self.recent.get(id)
    }

    fn check_keepable(&self, id: RequestId) -> Result<(), Error> {
        let seq = self.seqs.iter().find(|seq| seq.request_id == id);
        let seq = seq.ok_or(Error::UnknownRequest { id: id.0 })?;
        if 1 < seq.request.choices() {
            return Err(Error::BadOption {
                option: "n",
                value: seq.request.choices().to_string(),
                rule: "what is kept is of a request with one output".into(),
            });
        }
        Ok(())
    }

    /// What a sequence remembers when it comes: tokens, of which nothing is computed.
    pub(super) fn new_memory(&mut self, request: &Request, past: Option<&Past>) -> SeqMemory {
        let prompt = request.prompt.len();
        let kind = self.scheduler.kind(request.cache.as_deref());
        let scaled_for = match (past, self.dynamic_rope.as_ref()) {
            (_, None) => None,
            (Some(past), _) => Some(past.scaled_end),
            (None, Some(rope)) => Some(rope.context_for(prompt)),
        };
        let mut salt = request.cache_salt.clone();
        if let Some(tokens) = scaled_for {
            // What a page holds depends on how its tokens were scaled.
            salt = format!("{tokens} {salt}");
        }
        let row_kind_ends = past.map_or_else(|| vec![prompt], |past| past.row_kind_ends(prompt));
        let mut keys = self.scheduler.space().new_keys(kind, &salt);
        if self.distinguishes_row_kinds {
            let tell_apart = |keys: PageKeys| keys.tell_apart(row_kind_ends[0]);
            keys = keys.into_iter().map(tell_apart).collect();
        }
        let sealed_end = match past {
            Some(past) if !past.origin.is_ours() => 0,
            // Content keys know of one change of row kinds.
            Some(_) if self.distinguishes_row_kinds => row_kind_ends[1],
            _ => usize::MAX,
        };
        SeqMemory {
            row_kind_ends,
            sealed_end,
            scaled_end: scaled_for.unwrap_or(usize::MAX),
            replay: replay::log_of(request.cache.as_deref()),
            ..SeqMemory::new(request.prompt.clone(), kind, keys)
        }
    }

    /// Takes what files were read and written.
    pub(super) fn take_handle_work(&mut self, wait: Wait) {
        if let (Some(handles), true) = (&mut self.handles, self.scheduler.has_handle_work()) {
            for done in handles.done(wait) {
                self.scheduler.handle_done(done, &mut self.seqs);
            }
        }
    }

    pub(super) fn start_handle_work(&mut self) {
        for work in self.scheduler.take_handle_work() {
            let handles = self.handles.as_mut().expect("who has files has who reads them");
            handles.start(work);
        }
    }

    /// Ends the sequences whose past cannot be read.
    pub(super) fn end_failed(&mut self, events: &mut Events) {
        for (seq, why) in self.scheduler.take_failed() {
            if self.seqs.get(seq).is_some() {
                self.finish(seq, FinishReason::Failed(why), events);
            }
        }
    }

    /// What a sequence that was taken out leaves is kept, if somebody wants it, or released.
    pub(super) fn leave(&mut self, mut seq: Sequence, reason: FinishReason) {
        let has_ended = matches!(reason, FinishReason::Stop(_) | FinishReason::Length);
        let is_whole = has_ended || reason == FinishReason::Cancelled;
        if is_whole && seq.request.choices() == 1 && matches!(seq.request.task, Task::Generate(_)) {
            self.recent.push(seq.request_id, past_of(&seq));
        }
        match self.scheduler.kept().take_expected(seq.request_id) {
            Some((handle, None)) if is_whole => self.scheduler.keep(handle, seq),
            Some((handle, Some(keep))) => {
                match has_ended {
                    true => self.scheduler.keep(handle, seq),
                    false => self.scheduler.release(&mut seq.memory),
                }
                self.scheduler.kept_as(keep, handle);
                self.has_stepped = true;
            }
            _ => self.scheduler.release(&mut seq.memory),
        }
    }
}

/// What a request that ends leaves, without its pages.
fn past_of(seq: &Sequence) -> Past {
    Past {
        id: None,
        tokens: seq.memory.tokens.clone(),
        row_kind_ends: seq.memory.row_kind_ends.clone(),
        scaled_end: seq.memory.scaled_end,
        cache: seq.request.cache.clone(),
        cache_salt: seq.request.cache_salt.clone(),
        origin: seq.past.as_ref().map_or_else(Origin::default, |past| past.origin.clone()),
        file: None,
    }
}
