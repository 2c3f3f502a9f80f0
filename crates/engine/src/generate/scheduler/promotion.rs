//! Known content comes back to the device: from the store by moves, from the lower tiers by reads
//! into the store.
//!
//! A sequence with one table that sees all its tokens computes from the front while pages come from
//! the back, and skips what is there. Others wait until all is there; when the time for that is
//! over they begin anew with what is on the device.

use terrace_cache::{Direction, FoundPage, PageKey, PrefixMatch, TierDone, TierId, TierTask};

use crate::generate::moves_under_way::MoveOwner;
use crate::generate::prefix_fetch::PrefixFetch;
use crate::generate::scheduler::admission::reusable_tokens;
use crate::generate::scheduler::{Scheduler, chunk_of};
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::{SeqState, Sequence, Sequences};
use crate::generate::step_plan::StepPlan;

impl Scheduler {
    /// Goes on with what running sequences miss of their prefixes; what has arrived counts as
    /// computed.
    pub(super) fn promote(&mut self, seqs: &mut Sequences, plan: &mut StepPlan) {
        let is_missing = |id: &SeqId| seqs[*id].memory.prefix_fetch.is_some();
        for id in self.running.values().copied().filter(is_missing).collect::<Vec<_>>() {
            self.promote_one(seqs.get_mut(id), plan);
        }
    }

    /// The same for one of them, which may begin to wait or to run.
    pub(super) fn promote_one(&mut self, seq: &mut Sequence, plan: &mut StepPlan) {
        self.skip_present(seq);
        let is_coming = self.bring_missing(seq, plan);
        self.skip_present(seq);
        let Some(fetch) = &seq.memory.prefix_fetch else {
            seq.state = SeqState::Running;
            return;
        };
        let waits = is_coming && self.now_ms < fetch.waits_until_ms;
        seq.state = match waits || !self.can_meet(seq) {
            true => SeqState::Fetching,
            false => SeqState::Running,
        };
    }

    /// Where nobody has its bytes, the first whose prefix is all on its way computes what follows
    /// it, each layer when its bytes are there.
    pub(super) fn follow_moves(&mut self, seqs: &mut Sequences, plan: &mut StepPlan) {
        if self.running_now(seqs).next().is_some() {
            return;
        }
        let moves = |id: &SeqId| {
            let seq = &seqs[*id];
            // Who evicts may have to copy pages first.
            let can_follow = self.can_meet(seq) && seq.policy().is_none();
            let fetch = seq.memory.prefix_fetch.as_ref().filter(|_| can_follow)?;
            Some((*id, fetch.moves_of_all()?))
        };
        let Some((id, moves)) = self.running.values().find_map(moves) else { return };
        let seq = seqs.get_mut(id);
        let fetch = seq.memory.prefix_fetch.take().expect("it was there");
        let skipped = fetch.end() - seq.started;
        (seq.memory.computed, seq.started) = (fetch.end(), fetch.end());
        self.counters.count_cached(seq, skipped);
        seq.state = SeqState::Running;
        let chunk = chunk_of(seq, self.config.max_step_tokens);
        plan.chunks.push(chunk.expect("a token is left to compute after a prefix"));
        plan.awaited = moves.into_iter().collect();
    }

    /// Those that wait for all of their prefix, and shall not wait longer, begin anew.
    pub(super) fn give_up_waiting(&mut self, seqs: &mut Sequences) {
        let late = |id: &SeqId| {
            let seq = &seqs[*id];
            let Some(fetch) = &seq.memory.prefix_fetch else { return false };
            let comes =
                || fetch.has_moves() || fetch.wanted().iter().any(|page| self.comes(seq, *page));
            !self.can_meet(seq) && (fetch.waits_until_ms <= self.now_ms || !comes())
        };
        for id in self.running.values().copied().filter(late).collect::<Vec<_>>() {
            let seq = seqs.get_mut(id);
            seq.ignores_lower = true;
            self.forget(seq);
            self.requeue(seq);
        }
    }

    /// When a sequence has waited long enough, if one waits.
    pub(crate) fn next_deadline_ms(&self, seqs: &Sequences) -> Option<u64> {
        let waiting = self.running.values().map(|id| &seqs[*id]);
        let waiting = waiting.filter(|seq| seq.state == SeqState::Fetching);
        let deadlines = waiting.filter_map(|seq| seq.memory.prefix_fetch.as_ref());
        deadlines.map(|fetch| fetch.waits_until_ms).filter(|deadline| *deadline < u64::MAX).min()
    }

    /// What is known of a sequence's prefix on all levels that it may use.
    pub(super) fn find_prefix(&self, seq: &Sequence) -> PrefixMatch {
        let lower = |key: &PageKey| match seq.ignores_lower {
            true => None,
            false => self.find_below(key),
        };
        self.space.longest_match(seq.kind(), &seq.memory.keys, reusable_tokens(seq), lower)
    }

    /// Tables were opened over a match that is not all on the device.
    pub(super) fn begin_fetch(&self, seq: &mut Sequence, matched: &PrefixMatch) {
        let is_below = |found: &FoundPage| matches!(found, FoundPage::Below(_));
        let waits_until_ms = match matched.pages.iter().flatten().any(is_below) {
            true => self.now_ms + self.tiers.wait_ms,
            false => u64::MAX,
        };
        seq.memory.prefix_fetch = Some(PrefixFetch::new(matched, waits_until_ms));
        let leading = match self.can_meet(seq) {
            true => matched.leading(0) * seq.memory.tables[0].page_tokens(),
            false => 0,
        };
        (seq.memory.computed, seq.started) = (leading, leading);
    }

    /// Asks the tiers of which only hints are known for a new sequence's prefix.
    pub(super) fn look_up(&mut self, seq: &Sequence) {
        let tiers = self.lower.unlisted();
        if tiers.is_empty() || seq.goes_on_from.is_some() {
            return;
        }
        let keys = seq.memory.keys.iter().flat_map(|keys| keys.as_slice());
        let is_unknown =
            |key: &&PageKey| self.space.find(key).is_none() && self.find_below(key).is_none();
        let unknown: Vec<PageKey> = keys.filter(is_unknown).copied().collect();
        if unknown.is_empty() {
            return;
        }
        for tier in tiers {
            let task = TierTask::LookUp(unknown.clone());
            self.look_ups.push(self.work.begin(tier, task, Some(seq.id)));
        }
    }

    pub(super) fn looked_up(&mut self, tier: TierId, keys: &[PageKey], done: &TierDone) {
        for (key, found) in keys.iter().zip(&done.done) {
            if *found {
                self.lower.insert(tier, *key);
            }
        }
    }

    /// More of a sequence's prefix is known than when it began: what it has not computed is
    /// fetched.
    pub(super) fn extend_match(&mut self, id: SeqId, seqs: &mut Sequences) {
        let Some(seq) = seqs.get(id) else { return };
        let is_computing = seq.state == SeqState::Running && seq.memory.prefix_fetch.is_none();
        if !is_computing || seq.goes_on_from.is_some() || !self.can_meet(seq) {
            return;
        }
        let matched = self.find_prefix(seq);
        let page_tokens = seq.memory.tables[0].page_tokens();
        let first = seq.started.div_ceil(page_tokens);
        if matched.tokens <= first * page_tokens {
            return;
        }
        let seq = seqs.get_mut(id);
        let mut fetch = PrefixFetch::new(&matched, self.now_ms);
        fetch.skip_before(first);
        for (index, found) in matched.pages[0].iter().enumerate().skip(first) {
            if let FoundPage::Device(page) = found {
                self.space.adopt(&mut seq.memory.tables[0], index, *page);
            }
        }
        seq.memory.prefix_fetch = Some(fetch);
    }

    /// Whether a sequence may compute from the front while pages come from the back.
    pub(super) fn can_meet(&self, seq: &Sequence) -> bool {
        let mut groups = self.space.groups(seq.kind());
        let first = groups.next().expect("a kind has groups");
        groups.next().is_none() && first.window.is_none()
    }

    fn find_below(&self, key: &PageKey) -> Option<FoundPage> {
        let stored = self.store.get(key).map(FoundPage::Host);
        stored.or_else(|| self.lower.find(key).map(FoundPage::Below))
    }

    /// Whether a page that is missing is known on another level, or being read.
    fn comes(&self, seq: &Sequence, (table, index): (usize, usize)) -> bool {
        let key = &seq.memory.keys[table].as_slice()[index];
        self.work.reads(key) || self.space.find(key).is_some() || self.find_below(key).is_some()
    }

    /// What has arrived counts as computed. Not while a step of the sequence is under way.
    fn skip_present(&mut self, seq: &mut Sequence) {
        let can_meet = self.can_meet(seq);
        let memory = &mut seq.memory;
        let Some(fetch) = &mut memory.prefix_fetch else { return };
        let mut position = seq.started;
        if can_meet {
            let page_tokens = memory.tables[0].page_tokens();
            fetch.skip_before(seq.started.div_ceil(page_tokens));
            position = fetch.after_present(position, page_tokens);
        } else if fetch.is_complete() {
            position = fetch.end();
        }
        let end = fetch.end();
        if memory.computed < seq.started {
            return;
        }
        if end <= position {
            memory.prefix_fetch = None;
        }
        let skipped = position - seq.started;
        (memory.computed, seq.started) = (position, position);
        self.counters.count_cached(seq, skipped);
    }

    /// Begins moves and reads of what is missing, the last page first; whether any of it is on its
    /// way.
    fn bring_missing(&mut self, seq: &mut Sequence, plan: &mut StepPlan) -> bool {
        let Some(fetch) = &seq.memory.prefix_fetch else { return false };
        let mut is_coming = fetch.has_moves();
        let (mut moved, mut pairs) = (Vec::new(), Vec::new());
        for (table, index) in fetch.wanted() {
            let key = seq.memory.keys[table].as_slice()[index];
            let memory = &mut seq.memory;
            if let Some(page) = self.space.find(&key) {
                self.space.adopt(&mut memory.tables[table], index, page);
                memory.prefix_fetch.as_mut().expect("it was there").found((table, index));
            } else if let Some(stored) = self.store.get(&key) {
                let page = memory.tables[table].pages()[index].expect("a page was taken for it");
                moved.push((table, index));
                pairs.push((page, stored));
            } else {
                is_coming |= self.work.reads(&key) || self.want_read(key);
            }
        }
        if !pairs.is_empty() {
            self.space.share(&pairs.iter().map(|(page, _)| *page).collect::<Vec<_>>());
            let owner = MoveOwner::Prefix(seq.id);
            self.counters.pages_promoted += pairs.len() as u64;
            let begun = self.moves.begin(owner, Direction::SwapIn, pairs, &mut self.store);
            seq.memory.prefix_fetch.as_mut().expect("it was there").begin(&moved, begun.id);
            plan.moves.push(begun);
            is_coming = true;
        }
        // Afterwards: the move holds its pages, which reads would take.
        self.read_wanted(plan);
        is_coming
    }

    /// Content to be read next, if a tier has it.
    fn want_read(&mut self, key: PageKey) -> bool {
        let Some(tier) = self.lower.find(&key) else { return false };
        self.wanted_reads.entry(tier).or_default().push(key);
        true
    }

    /// Begins reads of what is wanted, in batches; what finds no room now is wanted again later.
    fn read_wanted(&mut self, plan: &mut StepPlan) {
        for (tier, keys) in std::mem::take(&mut self.wanted_reads) {
            for keys in keys.chunks(self.tiers.batch_pages.max(1)) {
                // Half of the store is left to what leaves the device.
                let room = (self.store.total() / 2).max(1).saturating_sub(self.work.reading());
                let room = room.min(self.store.available());
                let keys = &keys[..keys.len().min(room)];
                if keys.is_empty() {
                    break;
                }
                let stored = self.store.take(keys.len()).expect("they were counted");
                let pages = keys.iter().copied().zip(stored).collect();
                plan.tier_work.push(self.work.begin(tier, TierTask::Read(pages), None));
            }
        }
    }
}
