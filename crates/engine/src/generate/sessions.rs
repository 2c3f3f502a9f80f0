//! Which sessions there are, and which pages each has: books and decisions, no clock and no pages.
//!
//! A session has the full pages of its last conversation, and a claim to them that each of its
//! requests renews. What happens to pages is returned as [`ClaimChange`]s. A session whose time is
//! over is forgotten, and its claims expire with it; one that is ended gives its claims up, but to
//! pages that another session has too: these keep them until their time is over. While a request of
//! a session runs, the session lives.
//! Both sessions and their pages are bounded; the longest unused one makes way.
//! Invariant: a page has as many holders as sessions list it, and exactly the sessions without
//! requests are in the orders of expiry and of use.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use terrace_cache::PageKey;
use terrace_cache::placement::Retention;

use crate::generate::request::RequestId;
use crate::generate::request_retention::{RequestRetention, SessionKey};

/// The most there are of both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    pub(crate) sessions: usize,
    /// Of all sessions: some 100 bytes each.
    pub(crate) pages: usize,
}

impl SessionLimits {
    pub(crate) const ENGINE: SessionLimits = SessionLimits { sessions: 65_536, pages: 1 << 20 };
}

pub(crate) struct Sessions {
    limits: SessionLimits,
    sessions: BTreeMap<SessionKey, Session>,
    /// By number.
    names: HashMap<u64, SessionKey>,
    next_number: u64,
    /// How many sessions have a page.
    holders: HashMap<PageKey, usize>,
    /// Pages of all sessions.
    pages: usize,
    /// Those that run, and the number of the session that each is of.
    requests: HashMap<RequestId, u64>,
    /// Of sessions without requests: when each is over, and when it was used.
    by_expiry: BTreeSet<(u64, u64)>,
    by_use: BTreeSet<(u64, u64)>,
}

pub(crate) struct Session {
    /// Never used twice: another session may have the name later.
    number: u64,
    pub(crate) claim: Retention,
    pub(crate) pages: Vec<PageKey>,
    pub(crate) tokens: usize,
    pub(crate) requests: u64,
    running: usize,
    pub(crate) created_ms: u64,
    pub(crate) used_ms: u64,
}

/// To pages, on the levels where they are: a claim is given up, then one is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimChange {
    pub(crate) pages: Vec<PageKey>,
    pub(crate) withdrawn: Option<Retention>,
    pub(crate) claimed: Option<Retention>,
}

impl Sessions {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        Sessions {
            limits,
            sessions: BTreeMap::new(),
            names: HashMap::new(),
            next_number: 0,
            holders: HashMap::new(),
            pages: 0,
            requests: HashMap::new(),
            by_expiry: BTreeSet::new(),
            by_use: BTreeSet::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// The sessions of an owner by id, those after `after` alone.
    pub(crate) fn of_owner(
        &self,
        owner: Option<usize>,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&SessionKey, &Session)> {
        let first = SessionKey { owner, id: after.unwrap_or_default().to_owned() };
        let is_after = move |key: &SessionKey| after.is_none_or(|after| after < key.id.as_str());
        let from = self.sessions.range(first..).take_while(move |(key, _)| key.owner == owner);
        from.filter(move |(key, _)| is_after(key))
    }

    /// When the next session is over, if none is used before.
    pub(crate) fn next_expiry_ms(&self) -> Option<u64> {
        self.by_expiry.first().map(|(expires_ms, _)| *expires_ms)
    }

    /// A request of a session has come; the session's pages are claimed anew.
    pub(crate) fn begin(
        &mut self,
        request: RequestId,
        retention: &RequestRetention,
        now_ms: u64,
    ) -> Vec<ClaimChange> {
        let Some(key) = &retention.session else { return Vec::new() };
        let claim = retention.session_claim(now_ms);
        if !self.sessions.contains_key(key) {
            self.create(key.clone(), claim, now_ms);
        }
        let session = self.sessions.get_mut(key).expect("it was made");
        let number = session.number;
        remove_from_orders(session, &mut self.by_expiry, &mut self.by_use);
        session.requests += 1;
        session.running += 1;
        session.used_ms = now_ms;
        self.requests.insert(request, number);
        let changes = self.claim_anew(number, claim);
        self.make_room(changes)
    }

    /// A request leaves these full pages: they are the session's conversation from now on.
    pub(crate) fn set_pages(
        &mut self,
        request: RequestId,
        retention: &RequestRetention,
        (pages, tokens): (Vec<PageKey>, usize),
        now_ms: u64,
    ) -> Vec<ClaimChange> {
        let Some(number) = self.alive(request) else { return Vec::new() };
        self.release_pages(number);
        for page in &pages {
            *self.holders.entry(*page).or_default() += 1;
        }
        self.pages += pages.len();
        let session = self.session_mut(number);
        (session.pages, session.tokens) = (pages, tokens);
        let changes = self.claim_anew(number, retention.session_claim(now_ms));
        self.make_room(changes)
    }

    /// A request is over, however it ended.
    pub(crate) fn end(&mut self, request: RequestId, now_ms: u64) {
        let number = self.alive(request);
        self.requests.remove(&request);
        let Some(number) = number else { return };
        let session = self.session_mut(number);
        session.running -= 1;
        session.used_ms = now_ms;
        if session.running == 0 {
            let (expires_ms, used_ms) = (expiry(session), session.used_ms);
            self.by_expiry.insert((expires_ms, number));
            self.by_use.insert((used_ms, number));
        }
    }

    /// Ends a session; `None` where there is none of that name.
    pub(crate) fn remove(&mut self, key: &SessionKey) -> Option<ClaimChange> {
        let session = self.sessions.get(key)?;
        let (number, claim) = (session.number, session.claim);
        let pages = self.forget(number);
        Some(ClaimChange { pages, withdrawn: Some(claim), claimed: None })
    }

    /// Forgets sessions whose time is over.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        while let Some((expires_ms, number)) = self.by_expiry.first().copied()
            && expires_ms <= now_ms
        {
            self.forget(number);
        }
    }

    /// Panics unless the books agree.
    pub(crate) fn check(&self) {
        let mut holders: HashMap<PageKey, usize> = HashMap::new();
        let listed = self.sessions.values().flat_map(|session| &session.pages);
        listed.for_each(|page| *holders.entry(*page).or_default() += 1);
        assert_eq!(holders, self.holders, "holders of the sessions' pages");
        assert_eq!(self.pages, holders.values().sum::<usize>(), "pages of all sessions");
        assert_eq!(self.names.len(), self.sessions.len(), "numbers and names");
        let idle = || self.sessions.values().filter(|session| session.running == 0);
        let by_expiry = idle().map(|session| (expiry(session), session.number)).collect();
        assert_eq!(self.by_expiry, by_expiry, "sessions by expiry");
        let by_use = idle().map(|session| (session.used_ms, session.number)).collect();
        assert_eq!(self.by_use, by_use, "sessions by use");
        for (key, session) in &self.sessions {
            assert_eq!(self.names.get(&session.number), Some(key), "the name of {key:?}");
            let running = self.requests.values().filter(|number| **number == session.number);
            assert_eq!(running.count(), session.running, "requests of {key:?}");
        }
    }

    fn create(&mut self, key: SessionKey, claim: Retention, now_ms: u64) {
        self.next_number += 1;
        let number = self.next_number;
        let session = Session {
            number,
            claim,
            pages: Vec::new(),
            tokens: 0,
            requests: 0,
            running: 0,
            created_ms: now_ms,
            used_ms: now_ms,
        };
        self.by_expiry.insert((expiry(&session), number));
        self.by_use.insert((now_ms, number));
        self.names.insert(number, key.clone());
        self.sessions.insert(key, session);
    }

    /// The number of a running request's session, unless that was ended.
    fn alive(&self, request: RequestId) -> Option<u64> {
        self.requests.get(&request).copied().filter(|number| self.names.contains_key(number))
    }

    fn session_mut(&mut self, number: u64) -> &mut Session {
        self.sessions.get_mut(&self.names[&number]).expect("a number is of a session")
    }

    /// Replaces the claim of a running session.
    fn claim_anew(&mut self, number: u64, claim: Retention) -> Vec<ClaimChange> {
        let session = self.session_mut(number);
        let old = std::mem::replace(&mut session.claim, claim);
        let pages = session.pages.clone();
        if pages.is_empty() {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if !claim.covers(old) {
            let own = pages.iter().copied().filter(|page| self.holders[page] == 1).collect();
            changes.push(ClaimChange { pages: own, withdrawn: Some(old), claimed: None });
        }
        changes.push(ClaimChange { pages, withdrawn: None, claimed: Some(claim) });
        changes
    }

    /// Ends the longest unused sessions while there are too many, or too many pages of them.
    fn make_room(&mut self, mut changes: Vec<ClaimChange>) -> Vec<ClaimChange> {
        while (self.limits.sessions < self.len() || self.limits.pages < self.pages)
            && let Some((_, number)) = self.by_use.first().copied()
        {
            let key = self.names[&number].clone();
            changes.extend(self.remove(&key));
        }
        changes
    }

    /// Takes a session out of the books; the pages that no other session has.
    fn forget(&mut self, number: u64) -> Vec<PageKey> {
        let mut pages = self.release_pages(number);
        pages.retain(|page| !self.holders.contains_key(page));
        let key = self.names.remove(&number).expect("a number is of a session");
        let session = self.sessions.remove(&key).expect("a name is of a session");
        remove_from_orders(&session, &mut self.by_expiry, &mut self.by_use);
        pages
    }

    fn release_pages(&mut self, number: u64) -> Vec<PageKey> {
        let pages = std::mem::take(&mut self.session_mut(number).pages);
        for page in &pages {
            let holders = self.holders.get_mut(page).expect("a session's page has a holder");
            *holders -= 1;
            if *holders == 0 {
                self.holders.remove(page);
            }
        }
        self.pages -= pages.len();
        pages
    }
}

fn remove_from_orders(
    session: &Session,
    by_expiry: &mut BTreeSet<(u64, u64)>,
    by_use: &mut BTreeSet<(u64, u64)>,
) {
    by_expiry.remove(&(expiry(session), session.number));
    by_use.remove(&(session.used_ms, session.number));
}

fn expiry(session: &Session) -> u64 {
    session.claim.expires_ms.expect("a session's claim ends")
}

#[cfg(test)]
mod tests;
