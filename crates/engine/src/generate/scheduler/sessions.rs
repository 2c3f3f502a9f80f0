//! What requests ask for the pages they leave behind, carried out on the levels that the scheduler
//! knows: the device and the store. Records of the lower tiers have the label they were written
//! with.

use terrace_cache::PageKey;
use terrace_cache::placement::Retention;

use crate::generate::request_retention::SessionKey;
use crate::generate::scheduler::Scheduler;
use crate::generate::sequence::{Sequence, Sequences};
use crate::generate::session_reading::{SessionPages, SessionQuery, SessionReading};
use crate::generate::sessions::{ClaimChange, Session, Sessions};

impl Scheduler {
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Time has gone on: sessions are over, and those of new requests begin or go on.
    pub(super) fn renew_sessions(&mut self) {
        self.sessions.expire(self.now_ms);
        for (id, request) in std::mem::take(&mut self.session_requests) {
            let changes = self.sessions.begin(id, &request.retention, self.now_ms);
            self.change_claims(&changes);
        }
    }

    /// A sequence was taken out: its full pages have what its request asks, from now on.
    pub(crate) fn retain_pages(&mut self, seq: &Sequence, seqs: &Sequences) {
        let pages = self.full_pages(seq);
        let retention = &seq.request.retention;
        let claimed = Some(retention.claim(self.now_ms));
        let change = ClaimChange { pages, withdrawn: None, claimed };
        self.change_claims(std::slice::from_ref(&change));
        if retention.session.is_none() {
            return;
        }
        let pages = change.pages;
        let (id, now_ms) = (seq.request_id, self.now_ms);
        if !pages.is_empty() {
            let conversation = (pages, seq.tokens().len());
            let changes = self.sessions.set_pages(id, retention, conversation, now_ms);
            self.change_claims(&changes);
        }
        if !seqs.iter().any(|other| other.request_id == id) {
            // One that is cancelled at once has not begun.
            self.session_requests.retain(|(waiting, _)| *waiting != id);
            self.sessions.end(id, now_ms);
        }
    }

    /// Ends a session: its pages are as all others. Whether there was one.
    pub(crate) fn end_session(&mut self, key: &SessionKey) -> bool {
        let ended = self.sessions.remove(key);
        self.change_claims(ended.as_slice());
        ended.is_some()
    }

    pub(crate) fn read_sessions(&self, query: &SessionQuery) -> Vec<SessionReading> {
        let SessionQuery { owner, after, most } = query;
        let sessions = self.sessions.of_owner(*owner, after.as_deref()).take(*most);
        sessions.map(|(key, session)| self.read_session(key, session)).collect()
    }

    fn read_session(&self, key: &SessionKey, session: &Session) -> SessionReading {
        let mut pages = SessionPages::default();
        for page in &session.pages {
            let is_on_device = self.space.find(page).is_some();
            let count = match (is_on_device, self.store.get(page), self.lower.has(page)) {
                (true, ..) => &mut pages.device,
                (_, Some(_), _) => &mut pages.host,
                (.., true) => &mut pages.lower,
                _ => &mut pages.absent,
            };
            *count += 1;
        }
        let Retention { priority, expires_ms } = session.claim;
        SessionReading {
            id: key.id.clone(),
            tokens: session.tokens,
            pages,
            requests: session.requests,
            priority,
            created_ms_ago: self.now_ms.saturating_sub(session.created_ms),
            used_ms_ago: self.now_ms.saturating_sub(session.used_ms),
            expires_in_ms: expires_ms.unwrap_or(u64::MAX).saturating_sub(self.now_ms),
        }
    }

    /// Of all groups, in the order of the tokens.
    fn full_pages(&self, seq: &Sequence) -> Vec<PageKey> {
        let memory = &seq.memory;
        let groups = self.space.groups(memory.kind).zip(&memory.keys);
        let full = groups.flat_map(|(group, keys)| {
            keys.as_slice().iter().take(memory.computed / group.page_tokens())
        });
        full.copied().collect()
    }

    fn change_claims(&mut self, changes: &[ClaimChange]) {
        for ClaimChange { pages, withdrawn, claimed } in changes {
            for page in pages {
                if let Some(claim) = *withdrawn {
                    self.space.withdraw(page, claim);
                    self.store.withdraw(page, claim);
                }
                if let Some(claim) = *claimed {
                    self.space.retain(page, claim);
                    self.store.retain(page, claim);
                }
            }
        }
    }
}
