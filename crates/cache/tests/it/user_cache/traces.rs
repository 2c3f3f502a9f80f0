//! The traces of the original's manager: a plain model of it meets them to the page, and the cache
//! agrees with the model on lengths, metadata and victims, up to the naming of pages.

use serde_json::Value;
use terrace_cache::users::{
    HistoryContent, HistoryKeys, HistorySeed, KvMetadata, MetadataUser, UserCache, UserCacheLimits,
    UserKey,
};
use terrace_testkit::golden_set;

use super::history_seed;
use super::plain_policy::PlainPolicy;

#[test]
fn the_plain_model_and_the_cache_meet_the_traces() {
    let text = std::fs::read_to_string(golden_set("hstu").join("kv_traces.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let traces = golden["traces"].as_array().expect("a list");
    assert!(!traces.is_empty());
    for trace in traces {
        let name = trace["name"].as_str().expect("a text");
        let steps = trace["steps"].as_array().expect("a list");
        let mut replay = Replay::new(&steps[0]);
        for (number, step) in steps.iter().enumerate().skip(1) {
            replay.step(step, &format!("{name} step {number}"));
        }
    }
}

struct Replay {
    page: usize,
    chunk: usize,
    plain: PlainPolicy,
    cache: UserCache,
    seed: HistorySeed,
    /// What the original's host has of each user.
    host: std::collections::BTreeMap<i64, usize>,
}

impl Replay {
    fn new(init: &Value) -> Self {
        let count = |key: &str| init[key].as_u64().expect("a count") as usize;
        let (page, pages) = (count("page_size"), count("num_pages"));
        let host_pages = if init["host_enabled"] == true { 10_000 } else { 0 };
        Replay {
            page,
            chunk: count("chunk_size"),
            plain: PlainPolicy::new(page, pages),
            cache: UserCache::new(UserCacheLimits {
                page_tokens: page,
                device_pages: pages,
                host_pages,
                has_lower_tiers: false,
                lower_tokens: 0,
            }),
            seed: history_seed(),
            host: std::collections::BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Value, at: &str) {
        match step["op"].as_str().expect("a text") {
            "allocate" => self.allocate(step, at),
            "offload_begin" => {}
            "offload_end" => self.offload(step, at),
            "evict_gpu" => {
                let user = step["user"].as_i64().expect("an integer");
                self.plain.evict(user);
                self.cache.evict_from_device(&key(user));
            }
            other => panic!("{at}: unknown op {other}"),
        }
        self.cache.check([]);
        self.compare(&step["state"], at);
    }

    fn allocate(&mut self, step: &Value, at: &str) {
        let users = ints(&step["users"]);
        let (total, host) = (counts(&step["total"]), counts(&step["host_cached"]));
        for (i, user) in users.iter().enumerate() {
            let want = (counts(&step["lookup_start"])[i], counts(&step["lookup_length"])[i]);
            assert_eq!(self.plain.look_up(*user), want, "{at}: look-up of {user}");
        }
        let (cached, tables) = self.plain.allocate(&users, &total, &host);
        let metadata = &step["metadata"];
        assert_eq!(cached, counts(&metadata["cached_lengths"]), "{at}: cached lengths");
        let tables: Vec<Vec<i32>> =
            tables.iter().map(|pages| pages.iter().map(|page| *page as i32).collect()).collect();
        check_metadata(metadata, &self.metadata(&tables, &cached, &total), true, at);

        let histories: Vec<(Vec<i64>, HistoryKeys)> = (users.iter().zip(&total))
            .map(|(user, total)| {
                let ids: Vec<i64> = (0..*total as i64).map(|id| id * 7 + user).collect();
                let keys = HistoryKeys::new(self.seed.root(&key(*user)), self.page, &ids);
                (ids, keys)
            })
            .collect();
        let mut slots = Vec::new();
        for (user, (ids, keys)) in users.iter().zip(&histories) {
            let entered = self.cache.enter(&key(*user), HistoryContent { keys, ids });
            slots.push(entered.expect("nobody runs").0);
        }
        let (mut tables, mut found) = (Vec::new(), Vec::new());
        for (slot, total) in slots.iter().zip(&total) {
            let prepared = self.cache.allocate(*slot, *total).expect("the trace has room");
            if let Some(promotion) = &prepared.promotion {
                self.cache.arrived(promotion.id);
            }
            tables.push(prepared.table);
            found.push(prepared.cached);
        }
        assert_eq!(found, cached, "{at}: cached lengths of the cache");
        check_metadata(metadata, &self.metadata(&tables, &cached, &total), false, at);
        for ((slot, total), (ids, keys)) in slots.iter().zip(&total).zip(&histories) {
            self.cache.leave(*slot, HistoryContent { keys, ids }, *total);
        }
    }

    fn metadata(&self, tables: &[Vec<i32>], cached: &[usize], total: &[usize]) -> KvMetadata {
        let users = tables.iter().zip(cached).zip(total);
        let users = users.map(|((pages, cached), total)| MetadataUser {
            pages,
            cached: *cached,
            total: *total,
        });
        KvMetadata::of(self.page, &users.collect::<Vec<_>>())
    }

    /// What the original copied to its host is copied to the cache's.
    fn offload(&mut self, step: &Value, at: &str) {
        let (start, lengths) = (counts(&step["start"]), counts(&step["lengths"]));
        for ((user, start), length) in ints(&step["users"]).into_iter().zip(start).zip(lengths) {
            self.plain.offloaded(user, start + length);
            self.host.insert(user, start + length);
            let slot = self.cache.idle_slot(&key(user)).expect("it is cached");
            let pages = length / self.page;
            let begun = self.cache.offload(slot, 1, pages).expect("there is room");
            assert_eq!(begun.pages.len(), pages, "{at}: pages of {user}");
            self.cache.arrived(begun.id);
        }
        assert!(self.chunk >= self.page, "chunks hold pages");
    }

    fn compare(&self, state: &Value, at: &str) {
        assert_eq!(self.plain.free(), ints(&state["free_pages"]), "{at}: free pages");
        assert_eq!(self.plain.order(), ints(&state["lru_oldest_first"]), "{at}: order");
        let known = state["pages"].as_object().expect("an object");
        assert_eq!(self.plain.users().len(), known.len(), "{at}: users");
        assert_eq!(self.cache.free_device_pages(), self.plain.free().len(), "{at}: free");
        for (user, it) in self.plain.users() {
            let name = user.to_string();
            assert_eq!(it.pages, ints(&state["pages"][&name]), "{at}: pages of {user}");
            let count = |key: &str| state[key][&name].as_u64().expect("a count") as usize;
            assert_eq!((it.start, it.length), (count("start"), count("length")), "{at}: {user}");
            assert_eq!(it.offloaded, count("offloaded"), "{at}: offloaded of {user}");
            let span = self.cache.span(&key(*user));
            assert_eq!(span.device_start, Some(it.start), "{at}: start of {user}");
            assert_eq!(span.length, it.start + it.length, "{at}: length of {user}");
        }
        let on_device = |key: &&UserKey| self.cache.span(key).device_start.is_some();
        assert_eq!(self.cache.users().filter(on_device).count(), known.len(), "{at}: victims");
    }
}

fn check_metadata(golden: &Value, found: &KvMetadata, names_pages: bool, at: &str) {
    if names_pages {
        assert_eq!(to_i64(&found.kv_indices), ints(&golden["kv_indices"]), "{at}: kv_indices");
    }
    for (name, found) in [
        ("kv_indptr", &found.kv_indptr),
        ("kv_last_page_len", &found.kv_last_page_len),
        ("total_history_offsets", &found.total_history_offsets),
        ("new_history_offsets", &found.new_history_offsets),
        ("batch_indices", &found.batch_indices),
        ("position", &found.position),
    ] {
        assert_eq!(to_i64(found), ints(&golden[name]), "{at}: {name}");
    }
}

fn key(user: i64) -> UserKey {
    UserKey::new("", &user.to_string())
}

fn to_i64(numbers: &[i32]) -> Vec<i64> {
    numbers.iter().map(|number| i64::from(*number)).collect()
}

fn ints(list: &Value) -> Vec<i64> {
    list.as_array()
        .expect("a list")
        .iter()
        .map(|number| number.as_i64().expect("an integer"))
        .collect()
}

fn counts(list: &Value) -> Vec<usize> {
    ints(list).into_iter().map(|number| number as usize).collect()
}
