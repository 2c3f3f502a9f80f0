//! Random requests, edits, evictions, moves that take their time, tiers that lose records: what is
//! cached is always what would have been computed.

use std::collections::VecDeque;

use terrace_cache::PageMove;
use terrace_cache::users::{
    HistoryContent, HistoryKeys, HistorySeed, LowerPage, UserCache, UserCacheLimits, UserKey,
};
use terrace_testkit::Rng;

use super::bytes_model::{Bytes, value};
use super::history_seed;

#[test]
fn what_is_cached_is_what_would_have_been_computed() {
    let hits: usize = (0..300).map(|seed| Simulation::new(seed).run(120)).sum();
    assert!(10_000 < hits, "{hits} tokens were found in the cache");
}

struct Simulation {
    rng: Rng,
    cache: UserCache,
    bytes: Bytes,
    seed: HistorySeed,
    histories: Vec<Vec<i64>>,
    moves: VecDeque<PageMove>,
    writes: VecDeque<LowerPage>,
    hits: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let page_tokens = [1, 2, 4, 8][rng.below(4)];
        let device_pages = 8 + rng.below(40);
        let host_pages = [0, 3, 10, 100][rng.below(4)];
        let limits = UserCacheLimits {
            page_tokens,
            device_pages,
            host_pages,
            has_lower_tiers: true,
            lower_tokens: rng.below(100),
        };
        Simulation {
            cache: UserCache::new(limits),
            bytes: Bytes::new(page_tokens, device_pages, host_pages),
            seed: history_seed(),
            histories: vec![Vec::new(); 2 + rng.below(8)],
            moves: VecDeque::new(),
            writes: VecDeque::new(),
            hits: 0,
            rng,
        }
    }

    fn run(&mut self, steps: usize) -> usize {
        for _ in 0..steps {
            match self.rng.below(12) {
                0..6 => self.request(),
                6 => self.demote(),
                7 => self.offload(),
                8 => self.arrive(),
                9 => self.write(),
                10 => self.lose(),
                _ => self.remove(),
            }
            self.cache.check(self.writes.iter().map(|page| page.page));
        }
        while !self.moves.is_empty() {
            self.arrive();
        }
        while let Some(page) = self.writes.pop_front() {
            self.cache.written(&page, false);
        }
        self.cache.evict_all();
        self.cache.check([]);
        let all = self.bytes.device.len() / self.bytes.page_tokens;
        assert_eq!(self.cache.free_device_pages(), all, "pages leaked");
        assert!(self.cache.is_settled());
        let all = self.bytes.host.len() / self.bytes.page_tokens;
        assert_eq!(self.cache.free_host_pages(), all, "host pages leaked");
        self.hits
    }

    /// A history grows, is edited, or is shorter than before; then it is asked for.
    fn request(&mut self) {
        let user = self.rng.below(self.histories.len());
        let most = self.bytes.device.len() / 2;
        let history = &mut self.histories[user];
        match self.rng.below(10) {
            0 if !history.is_empty() => {
                let at = self.rng.below(history.len());
                history[at] += 1000;
            }
            1 => history.truncate(self.rng.below(history.len() + 1)),
            _ => {
                let more = self.rng.below(most / 2 + 2);
                history.extend((0..more).map(|_| self.rng.below(50) as i64));
                history.truncate(most);
            }
        }
        let ids = history.clone();
        let key = UserKey::new("", &user.to_string());
        let keys = HistoryKeys::new(self.seed.root(&key), self.bytes.page_tokens, &ids);
        let content = HistoryContent { keys: &keys, ids: &ids };
        let (slot, _) = self.cache.enter(&key, content).expect("nobody runs");
        let known = |key: &_| self.bytes.records.contains_key(key);
        let found = self.cache.find_below(slot, content, known);
        // A tier may have lost some meanwhile.
        let read: Vec<_> = found
            .into_iter()
            .map(|page| (page, self.rng.below(20) != 0 && self.bytes.read(&page)))
            .collect();
        self.cache.read(&read);
        let known = self.cache.span(&key).length;
        assert_eq!(self.cache.ids(&key)[..known.min(ids.len())], ids[..known.min(ids.len())]);
        let Ok(prepared) = self.cache.allocate(slot, ids.len()) else {
            return self.cache.leave_failed(slot, false);
        };
        if let Some(promotion) = prepared.promotion {
            self.bytes.copy(&promotion);
            self.moves.push_back(promotion);
        }
        let tokens = self.bytes.page_tokens;
        let at = |position: usize| {
            prepared.table[position / tokens] as usize * tokens + position % tokens
        };
        for position in 0..prepared.cached {
            let want = value(user as u64, &ids, position);
            assert_eq!(self.bytes.device[at(position)], want, "user {user} position {position}");
        }
        self.hits += prepared.cached;
        if self.rng.below(12) == 0 {
            // The step fails, and nobody knows what it has written.
            for page in &prepared.table {
                let start = *page as usize * tokens;
                self.bytes.device[start..start + tokens].fill(u64::MAX - 1);
            }
            return self.cache.leave_failed(slot, true);
        }
        for position in prepared.cached..ids.len() {
            self.bytes.device[at(position)] = value(user as u64, &ids, position);
        }
        self.cache.leave(slot, content, ids.len());
    }

    fn begin(&mut self, moves: impl IntoIterator<Item = PageMove>) {
        for asked in moves {
            // Bytes are read when a move begins: what was there then is what it brings.
            self.bytes.copy(&asked);
            self.moves.push_back(asked);
        }
    }

    fn demote(&mut self) {
        let (wanted, most) = (self.rng.below(20), 1 + self.rng.below(8));
        let moves = self.cache.demote(wanted, most);
        self.begin(moves);
    }

    fn offload(&mut self) {
        let user = UserKey::new("", &self.rng.below(self.histories.len()).to_string());
        if let Some(slot) = self.cache.idle_slot(&user) {
            let (least, most) = (self.rng.below(10), 1 + self.rng.below(10));
            let begun = self.cache.offload(slot, least, most);
            self.begin(begun);
        }
    }

    fn arrive(&mut self) {
        if let Some(asked) = self.moves.pop_front() {
            self.cache.arrived(asked.id);
        }
    }

    fn write(&mut self) {
        for page in self.cache.to_write(4) {
            self.bytes.write(&page);
            self.writes.push_back(page);
        }
        if let Some(page) = self.writes.pop_front() {
            let is_kept = self.rng.below(5) != 0;
            if !is_kept {
                self.bytes.records.remove(&page.key);
            }
            self.cache.written(&page, is_kept);
        }
    }

    /// A tier gives a record up.
    fn lose(&mut self) {
        let mut known: Vec<_> = self.bytes.records.keys().copied().collect();
        known.sort();
        if !known.is_empty() {
            let key = known[self.rng.below(known.len())];
            self.bytes.records.remove(&key);
            self.cache.gone_below(&key);
        }
    }

    fn remove(&mut self) {
        let user = UserKey::new("", &self.rng.below(self.histories.len()).to_string());
        if let Some(removed) = self.cache.remove(&user) {
            let of_user = |key: &terrace_cache::PageKey| key.as_bytes()[..16] == removed.prefix;
            self.bytes.records.retain(|key, _| !of_user(key));
            assert_eq!(self.cache.span(&user).length, 0);
        }
    }
}
