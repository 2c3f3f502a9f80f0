//! What users hold by name: brought to the store, saved from there, loaded into it, pinned in it.
//!
//! Files are read and written by others, as [`HandleWork`]; here is decided what, and which pages
//! of the store it uses. A sequence that goes on from what is in a file alone is parked: it is in
//! no queue, and others run, until the file is loaded. All who wait for a handle share one load.
//! What was loaded is kept like everything else, in the store, the longest unused forgotten first.

use std::sync::Arc;

use terrace_cache::{BlockTable, StorePageId};
use terrace_tiers::{
    HandleDone, HandleError, HandleId, HandleInfo, HandleManifest, HandleTask, HandleWork,
    TableManifest,
};

use crate::error::Error;
use crate::generate::handle_work_under_way::{HandleJob, Work};
use crate::generate::kept_handle::{KeepAs, KeptHandle};
use crate::generate::kv_handle::KvHandle;
use crate::generate::moves_under_way::MoveOwner;
use crate::generate::past::Past;
use crate::generate::scheduler::Scheduler;
use crate::generate::scheduler::kept::Kept;
use crate::generate::seq_id::SeqId;
use crate::generate::seq_memory::{DemotedPage, PagePairs, SeqMemory};
use crate::generate::sequence::{Sequence, Sequences};
use crate::generate::step_plan::StepPlan;
use crate::generate::token_event::Failure;

impl Scheduler {
    /// Work of handles is under way.
    pub(crate) fn has_handle_work(&self) -> bool {
        self.handles.is_working()
    }

    /// Nobody waits for a handle.
    pub(crate) fn has_handles_at_rest(&self) -> bool {
        self.handles.is_empty()
    }

    /// Work to be started.
    pub(crate) fn take_handle_work(&mut self) -> Vec<HandleWork> {
        self.handles.take_unstarted()
    }

    /// Sequences wait for their end.
    pub(crate) fn has_failed(&self) -> bool {
        self.handles.has_failed()
    }

    /// Sequences that cannot go on, and why.
    pub(crate) fn take_failed(&mut self) -> Vec<(SeqId, Failure)> {
        self.handles.take_failed().into_iter().collect()
    }

    /// What came of what was kept by name, and of pins.
    pub(crate) fn take_handle_results(&mut self) -> Vec<(HandleId, Result<KeptHandle, Error>)> {
        self.handles.take_results()
    }

    /// A request whose memory was to be kept by name has ended, and left it or not.
    pub(crate) fn kept_as(&mut self, keep: KeepAs, handle: KvHandle) {
        let KeepAs { id, manifest, pin } = keep;
        let Some(kept) = self.kept.get_mut(handle) else {
            let why = "its request has failed or was cancelled";
            return self.handles.report(id, Err(Error::HandleLost { why }));
        };
        if manifest.is_none() && !pin {
            let result = Ok(report(kept, id, None));
            return self.handles.report(id, result);
        }
        kept.jobs += 1;
        self.handles.add_job(HandleJob { handle, id, past: None, manifest, pin, is_counted: true });
    }

    /// Keeps a handle in the store from when it is there on.
    pub(crate) fn pin(&mut self, id: HandleId, past: Arc<Past>) {
        let handle = self.kept.named(id);
        let (past, manifest) = (Some(past), None);
        self.handles.add_job(HandleJob {
            handle,
            id,
            past,
            manifest,
            pin: true,
            is_counted: false,
        });
    }

    pub(crate) fn unpin(&mut self, id: HandleId) {
        let handle = self.kept.named(id);
        if let Some(kept) = self.kept.get_mut(handle) {
            kept.is_pinned = false;
        }
    }

    /// Takes a sequence aside whose past is in a file alone, and begins to load that.
    pub(super) fn park(&mut self, seq: &Sequence) -> bool {
        let (Some(handle), Some(past)) = (seq.goes_on_from, &seq.past) else { return false };
        let has_begun = !seq.memory.tables.is_empty();
        let computes = seq.ignores_file || past.file.is_none() || seq.wants_prompt_logprobs();
        if has_begun || computes || self.kept.has_pages(handle) {
            return false;
        }
        let past = Arc::clone(past);
        self.handles.park(seq.id, handle, Arc::clone(&past));
        self.begin_load(handle, &past);
        true
    }

    /// Goes on with what is on its way to or from the store.
    pub(super) fn carry_on_handles(&mut self, seqs: &mut Sequences, plan: &mut StepPlan) {
        // First: what they are done with may make way for what is loaded.
        let mut jobs = self.handles.take_jobs();
        // None takes the room of what another is for.
        jobs.iter_mut().for_each(|job| self.count(job));
        for job in jobs {
            self.carry_on(job, plan);
        }
        for (handle, past) in self.handles.wanted() {
            match self.kept.has_pages(handle) {
                true => self.unpark(handle, seqs),
                false => self.begin_load(handle, &past),
            }
        }
    }

    /// Work is done.
    pub(crate) fn handle_done(&mut self, done: HandleDone, seqs: &mut Sequences) {
        let work = self.handles.end(done.id);
        match (work, done.result) {
            (Work::Load { handle, past, pages }, Ok(_)) => {
                let memory = self.loaded(&past, &pages);
                let (cache, salt) = (past.cache.clone(), past.cache_salt.clone());
                let kept = Kept::new(memory, cache, salt, past.origin.clone(), None);
                self.kept.insert(handle, kept);
                self.unpark(handle, seqs);
                // It was removed meanwhile: who has waited has it, and nobody else will.
                if !self.kept.is_named(handle)
                    && let Some(mut kept) = self.kept.remove(handle)
                {
                    self.release(&mut kept.memory);
                }
            }
            (work @ Work::Load { handle, .. }, Err(error)) => {
                work.release(&mut self.store);
                self.load_failed(handle, error, seqs);
            }
            (work, result) => {
                work.release(&mut self.store);
                let Work::Save { job, .. } = work else { unreachable!("loads are above") };
                self.end_job(job, result.map_err(Error::from));
            }
        }
    }

    fn load_failed(&mut self, handle: KvHandle, error: HandleError, seqs: &mut Sequences) {
        let is_gone = matches!(error, HandleError::Unknown(_));
        for seq in self.handles.parked_for(handle) {
            if is_gone {
                // It was removed since they came; what it held can be computed.
                let seq = seqs.get_mut(seq);
                seq.ignores_file = true;
                self.handles.unpark(seq.id);
                self.waiting.insert(seq.rank, seq.id);
            } else {
                tracing::warn!("a request cannot go on: {error}");
                self.handles.fail(seq, Failure::BadHandle);
            }
        }
        let mut error = Some(error);
        for job in self.handles.take_jobs() {
            if job.handle != handle {
                self.handles.add_job(job);
                continue;
            }
            let error = error.take().map(Error::from);
            let error = error.unwrap_or(Error::HandleLost { why: "it cannot be read" });
            self.handles.report(job.id, Err(error));
        }
    }

    /// Who waits for a handle goes on: it is there.
    fn unpark(&mut self, handle: KvHandle, seqs: &mut Sequences) {
        for id in self.handles.parked_for(handle) {
            self.handles.unpark(id);
            let seq = seqs.get_mut(id);
            let kept = self.kept.find(handle).expect("it is there");
            if !kept.memory.is_on_device() {
                seq.memory.adopt(kept.memory.fork(&mut self.space, &mut self.store));
                seq.started = seq.memory.computed;
            }
            self.waiting.insert(seq.rank, id);
        }
    }

    /// Begins to load a file into the store, unless that is under way or there is no room now.
    fn begin_load(&mut self, handle: KvHandle, past: &Arc<Past>) {
        let Some(file) = &past.file else { return };
        if self.handles.is_loading(handle) {
            return;
        }
        if let Err(error) = self.check_fits(file.pages()) {
            for seq in self.handles.parked_for(handle) {
                tracing::warn!("a request cannot go on: {error}");
                self.handles.fail(seq, Failure::NoRoomForHandle);
            }
            return;
        }
        if !self.can_make_store_room(file.pages()) {
            return;
        }
        let pages = loop {
            match self.store.take(file.pages()) {
                Some(pages) => break pages,
                None if self.forget_stored().is_some() => {}
                None => return,
            }
        };
        let id = past.id.expect("what has a file has an id");
        let task = HandleTask::Load { handle: id, pages: pages.clone() };
        let past = Arc::clone(past);
        self.handles.begin(Work::Load { handle, past, pages }, task);
    }

    /// Whether the store could hold so many pages beside those that are pinned.
    fn check_fits(&self, wanted: usize) -> Result<(), Error> {
        let total = self.store.total();
        let free = total - self.kept.pinned_pages();
        if wanted <= free { Ok(()) } else { Err(Error::NoHostRoom { wanted, free, total }) }
    }

    /// What was read into these pages.
    fn loaded(&mut self, past: &Past, pages: &[StorePageId]) -> SeqMemory {
        let file = past.file.as_ref().expect("it was loaded");
        let kind = self.kind(past.cache.as_deref());
        let mut stored = pages.iter().copied();
        let (mut tables, mut demoted) = (Vec::new(), Vec::new());
        for (number, table) in file.tables.iter().enumerate() {
            tables.push(BlockTable::absent(table.page_tokens, table.len, table.passed));
            let entries = table.passed..table.passed + table.pages();
            demoted.extend(entries.map(|index| DemotedPage {
                table: number,
                index,
                stored: Some(stored.next().expect("one for each page of the file")),
            }));
        }
        SeqMemory {
            computed: file.computed,
            tables,
            demoted,
            row_kind_ends: past.row_kind_ends.clone(),
            scaled_end: past.scaled_end,
            ..SeqMemory::new(past.tokens.clone(), kind, Vec::new())
        }
    }

    /// What a job is for knows of it from when it is there.
    fn count(&mut self, job: &mut HandleJob) {
        if !job.is_counted
            && self.kept.has_pages(job.handle)
            && let Some(kept) = self.kept.get_mut(job.handle)
        {
            kept.jobs += 1;
            job.is_counted = true;
        }
    }

    fn carry_on(&mut self, job: HandleJob, plan: &mut StepPlan) {
        if !self.kept.has_pages(job.handle) {
            return self.await_load(job);
        }
        let mut kept = self.kept.remove(job.handle).expect("it has pages");
        let stored = kept.memory.stored().count();
        let result = match kept.memory.is_on_device() {
            true => match self.take_to_store(&mut kept.memory) {
                Some(pages) => {
                    self.begin_move(MoveOwner::Handle(job.handle), pages, plan);
                    None
                }
                None => self.check_room(&kept.memory).err().map(Err),
            },
            false if self.moves.are_leaving(kept.memory.stored()) => None,
            false => match job.pin && !kept.is_pinned {
                true => Some(self.check_pin(stored).map(|()| kept.is_pinned = true)),
                false => Some(Ok(())),
            },
        };
        let handle = job.handle;
        let manifest = job.manifest.as_deref().cloned();
        match (result, manifest) {
            (None, _) => self.handles.add_job(job),
            (Some(Ok(())), Some(mut manifest)) => {
                let pages = self.write_down(&mut manifest, &kept);
                self.store.share(&pages);
                let task = HandleTask::Save { manifest: Box::new(manifest), pages: pages.clone() };
                self.handles.begin(Work::Save { job, pages }, task);
            }
            (Some(result), _) => {
                self.kept.insert_unused(handle, kept);
                return self.end_job(job, result.map(|()| None));
            }
        }
        self.kept.insert_unused(handle, kept);
    }

    /// What a job is for is not there.
    fn await_load(&mut self, job: HandleJob) {
        let file = job.past.as_ref().and_then(|past| past.file.as_ref());
        let error = match file {
            // It was there, and a step or a move of it was lost.
            _ if job.is_counted && self.kept.is_named(job.handle) => {
                Err(Error::HandleLost { why: "a step failed" })
            }
            _ if job.is_counted => Err(Error::NoSuchHandle { handle: job.id.to_string() }),
            None => Err(Error::HandleLost { why: "memory was needed" }),
            Some(file) => self.check_fits(file.pages()),
        };
        match error {
            Ok(()) => self.handles.add_job(job),
            Err(error) => self.handles.report(job.id, Err(error)),
        }
    }

    /// What was asked for something that is kept is done, or failed.
    fn end_job(&mut self, job: HandleJob, result: Result<Option<HandleInfo>, Error>) {
        let HandleJob { handle, id, pin, .. } = job;
        let Some(kept) = self.kept.get_mut(handle) else {
            // It was removed meanwhile.
            let result = result.and(Err(Error::NoSuchHandle { handle: id.to_string() }));
            return self.handles.report(id, result);
        };
        kept.jobs -= 1;
        if result.is_err() && pin {
            kept.is_pinned = false;
        }
        let result = result.map(|info| report(kept, id, info));
        self.handles.report(id, result);
    }

    fn check_pin(&self, pages: usize) -> Result<(), Error> {
        let (used, most) = (self.kept.pinned_pages(), self.tiers.pin_pages);
        if used + pages <= most {
            return Ok(());
        }
        let bytes = |pages: usize| pages as u64 * self.tiers.page_bytes as u64;
        let (wanted, used, budget) = (bytes(pages), bytes(used), bytes(most));
        Err(Error::PinBudget { wanted, used, budget })
    }

    /// Pages to be copied, unless the store has no room now.
    fn take_to_store(&mut self, memory: &mut SeqMemory) -> Option<PagePairs> {
        let has_room = self.can_make_store_room(memory.on_device());
        has_room.then(|| self.swap_out(memory)).flatten()
    }

    /// Whether it may help to forget what others keep in the store: nothing is lost in vain.
    fn can_make_store_room(&self, pages: usize) -> bool {
        pages <= self.store.available() + self.kept.forgettable_pages()
    }

    /// Whether the store, which is full now, will have room for this: it is large enough, and
    /// those that hold its pages go on.
    fn check_room(&self, memory: &SeqMemory) -> Result<(), Error> {
        let wanted = memory.on_device();
        self.check_fits(wanted)?;
        let somebody_goes_on = !self.running.is_empty() || !self.waiting.is_empty();
        if somebody_goes_on || self.has_work_under_way() {
            return Ok(());
        }
        Err(self.no_room_now(wanted))
    }

    fn no_room_now(&self, wanted: usize) -> Error {
        let (free, total) = (self.store.available(), self.store.total());
        Error::NoHostRoom { wanted, free, total }
    }

    /// Moves, or work of tiers or handles, which make room when they are done.
    pub(super) fn has_work_under_way(&self) -> bool {
        self.has_moves() || self.has_tier_work() || self.has_handle_work()
    }

    /// Something that waits on the device for room in the store fails, and may be taken off: who
    /// runs needs the device's room, and nothing else makes way. `false` if nothing waits there.
    pub(super) fn give_up_leaving_handle(&mut self) -> bool {
        let waits = |job: &HandleJob| job.is_counted && self.kept.is_on_device(job.handle);
        let Some(job) = self.handles.take_job(waits) else { return false };
        let kept = self.kept.get_mut(job.handle).expect("it is on the device");
        let wanted = kept.memory.on_device();
        let error = self.no_room_now(wanted);
        self.end_job(job, Err(error));
        true
    }

    /// Writes down what is kept, all in the store; its pages in the manifest's order.
    fn write_down(&self, manifest: &mut HandleManifest, kept: &Kept) -> Vec<StorePageId> {
        let Kept { memory, cache, cache_salt, origin, .. } = kept;
        let wide = |numbers: &[usize]| numbers.iter().map(|number| *number as u64).collect();
        manifest.tokens.clone_from(&memory.tokens);
        manifest.computed = memory.computed as u64;
        manifest.row_kind_ends = wide(&memory.row_kind_ends);
        manifest.scaled_end = (memory.scaled_end < usize::MAX).then_some(memory.scaled_end as u64);
        manifest.cache_salt.clone_from(cache_salt);
        manifest.kv_cache = cache.as_ref().and_then(|cache| cache.options.clone());
        let policy = cache.as_ref().and_then(|cache| cache.policy.as_ref());
        manifest.chunk_ends = policy.map(|policy| wide(&policy.chunk_ends)).unwrap_or_default();
        manifest.is_imported |= origin.is_imported;
        if let Some(arithmetic) = &origin.arithmetic {
            manifest.arithmetic.clone_from(arithmetic);
        }
        let mut all = Vec::new();
        manifest.tables.clear();
        for (number, (table, group)) in
            memory.tables.iter().zip(self.space.groups(memory.kind)).enumerate()
        {
            let of_table = memory.demoted.iter().filter(|page| page.table == number);
            let mut stored: Vec<_> =
                of_table.filter_map(|page| Some((page.index, page.stored?))).collect();
            stored.sort_unstable_by_key(|(index, _)| *index);
            manifest.tables.push(TableManifest {
                format: group.format_bytes(),
                pages: stored.iter().map(|(index, _)| *index as u64).collect(),
                page_tokens: table.page_tokens() as u64,
                len: table.len() as u64,
            });
            all.extend(stored.into_iter().map(|(_, page)| page));
        }
        all
    }
}

fn report(kept: &Kept, id: HandleId, info: Option<HandleInfo>) -> KeptHandle {
    let pages = kept.memory.on_device().max(kept.memory.stored().count());
    KeptHandle { past: Arc::new(kept.past(Some(id))), pages, info }
}
