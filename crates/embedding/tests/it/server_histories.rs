//! Random histories of whole servers against a plain map, for every combination of levels.
//!
//! `TERRACE_SEED` repeats them, `TERRACE_HISTORIES` multiplies their steps. Updates come as the
//! feeds would bring them: what is for this server alone and what it shares, each once, and after a
//! restart again what memory has lost.
//!
//! Between the two halves of an update, whatever brings rows into a hot cache may bring old ones,
//! which a server mends by walking its caches later. So here nothing runs in the background then.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use terrace_embedding::{
    LevelKind, LookupStats, MissingRows, ParameterServer, PsConfig, UpdateScope,
};
use terrace_testkit::{RedisCluster, Rng, wait_until};

use crate::persistent_killed::number;
use crate::served::{DIM, config, rows, start, table, version_of, write_files};

/// Rows of the files; more than the smallest hot cache has.
const FILE_KEYS: i64 = 400;
/// Keys that come with updates only, and keys that never come, follow.
const NEW_KEYS: i64 = 60;
const UNKNOWN_KEYS: i64 = 20;
const STEPS: u64 = 60;
/// Rows of a partition of a level that evicts.
const MARGIN: u64 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Absent,
    /// Has room for a part of the rows.
    Small,
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Combination {
    cache: &'static str,
    /// From this share of hits on, missing rows come later.
    threshold: f64,
    ram: Size,
    redis: Size,
    persistent: &'static str,
}

impl Combination {
    /// Whether some level has every row at any time.
    fn is_complete(&self) -> bool {
        self.ram == Size::Full || self.redis == Size::Full || self.persistent != "disabled"
    }

    /// Whether a hot cache may keep an old row: Redis has evicted the new one before the cache was
    /// walked, and nothing else has it.
    fn may_be_old(&self) -> bool {
        !self.is_complete() && self.cache != "none" && self.redis == Size::Small
    }

    fn level(size: Size, mut fields: Value) -> Value {
        let more = match size {
            Size::Absent => return json!({ "type": "disabled" }),
            Size::Full => json!({}),
            Size::Small => json!({ "overflow_margin": MARGIN, "initialize_after_startup": false }),
        };
        let common = json!({ "num_partitions": 3, "cache_missed_embeddings": true });
        for part in [common, more] {
            let fields = fields.as_object_mut().expect("fields");
            fields.extend(part.as_object().expect("fields").clone());
        }
        fields
    }

    fn config(&self, folder: &Path, number: usize, nodes: &[String]) -> PsConfig {
        let ram = Self::level(self.ram, json!({ "type": "hash_map" }));
        let address = nodes.join(",");
        let redis = json!({ "type": "redis_cluster", "address": address });
        let redis = Self::level(self.redis, redis);
        let path = folder.join(format!("db{number}"));
        let persistent = json!({ "type": self.persistent, "path": path });
        // Only older files have both.
        let levels = match (self.ram, self.redis) {
            (_, Size::Absent) => json!({ "volatile_db": ram, "persistent_db": persistent }),
            (Size::Absent, _) => json!({ "volatile_db": redis, "persistent_db": persistent }),
            _ => json!({
                "cpu_memory_db": ram, "distributed_db": redis, "persistent_db": persistent,
            }),
        };
        let cache = match self.cache {
            "none" => json!({ "gpucache": false }),
            "recent" => json!({ "gpucache": true, "gpucacheper": 0.1 }),
            "all" => json!({ "gpucache": true, "gpucacheper": 1.0 }),
            kind => json!({
                "gpucache": true, "embedding_cache_type": kind, "gpucacheper": 0.5,
            }),
        };
        let mut model = json!({ "model": format!("h{number}") });
        for part in [cache, json!({ "hit_rate_threshold": self.threshold })] {
            let fields = part.as_object().expect("fields").clone();
            model.as_object_mut().expect("fields").extend(fields);
        }
        config(&folder.join("files"), &levels, &model)
    }
}

struct History<'a> {
    rng: &'a mut Rng,
    combination: Combination,
    config: PsConfig,
    server: Option<ParameterServer>,
    newest: BTreeMap<i64, u32>,
    /// All that was published.
    published: BTreeSet<(i64, u32)>,
    /// Keys that are not as in the files.
    updated: BTreeSet<i64>,
    version: u32,
}

impl History<'_> {
    fn run(&mut self, steps: u64) {
        self.start();
        if self.combination.redis != Size::Absent && self.combination.cache != "none" {
            wait_until("caches are walked once Redis is filled", || self.server().refreshes() > 0);
        }
        for _ in 0..steps {
            match self.rng.below(24) {
                0..8 => self.look_up(),
                8..15 => self.update(),
                15..18 => self.torn_update(),
                18..20 => self.refresh(),
                20..23 => self.prefetch(),
                _ => self.restart(),
            }
        }
        self.look_up_all();
        self.check_levels();
    }

    fn server(&self) -> &ParameterServer {
        self.server.as_ref().expect("it runs")
    }

    /// Redis is filled beside, as long as it may be.
    fn start(&mut self) {
        self.server = Some(start(&self.config));
        let table = table(self.server());
        if let Some(level) = table.levels().level(LevelKind::Redis)
            && self.combination.redis == Size::Full
        {
            let least = FILE_KEYS as u64;
            wait_until("Redis is filled", || level.store().count().is_ok_and(|it| it >= least));
        }
        if let Some(level) = table.levels().level(LevelKind::Redis) {
            wait_until("Redis is used", || !level.is_suspended());
        }
    }

    /// Memory is filled from the files, and what came since is brought again.
    fn restart(&mut self) {
        drop(self.server.take());
        self.start();
        let keys: Vec<i64> = self.updated.iter().copied().collect();
        let rows: Vec<f32> =
            keys.iter().flat_map(|key| crate::served::row(*key, self.newest[key])).collect();
        table(self.server()).update(UpdateScope::Own, &keys, &rows).expect("levels");
        self.look_up_all();
    }

    fn keys(&mut self, most: usize, end: i64) -> Vec<i64> {
        let count = self.rng.below(most + 1);
        (0..count).map(|_| self.rng.below(end as usize) as i64).collect()
    }

    fn new_version(&mut self) -> (Vec<i64>, Vec<f32>) {
        self.version += 1;
        // A delivery has each key once.
        let keys: BTreeSet<i64> = self.keys(60, FILE_KEYS + NEW_KEYS).into_iter().collect();
        let keys: Vec<i64> = keys.into_iter().collect();
        let rows = rows(&keys, self.version);
        (keys, rows)
    }

    fn note(&mut self, keys: &[i64]) {
        self.updated.extend(keys);
        self.newest.extend(keys.iter().map(|key| (*key, self.version)));
        self.published.extend(keys.iter().map(|key| (*key, self.version)));
    }

    /// Redis first, unless it evicts: what a look-up brings up then, when the new row is evicted
    /// already, is old, and a server cannot know.
    fn scopes(&self) -> [UpdateScope; 2] {
        match self.combination.redis {
            Size::Small => [UpdateScope::Own, UpdateScope::Shared],
            Size::Absent | Size::Full => [UpdateScope::Shared, UpdateScope::Own],
        }
    }

    fn update(&mut self) {
        let (keys, rows) = self.new_version();
        for scope in self.scopes() {
            table(self.server()).update(scope, &keys, &rows).expect("levels");
        }
        self.note(&keys);
    }

    /// Look-ups between the two halves of an update see either row; when both have come, hot caches
    /// are walked.
    fn torn_update(&mut self) {
        let (keys, rows) = self.new_version();
        let mut scopes = self.scopes();
        let nothing_is_deferred = self.combination.threshold > 1.0;
        if nothing_is_deferred && self.combination.redis == Size::Full {
            self.rng.shuffle(&mut scopes);
        }
        table(self.server()).update(scopes[0], &keys, &rows).expect("levels");
        let looked_up = if nothing_is_deferred { self.ask(&keys).0 } else { Vec::new() };
        for (key, version) in keys.iter().zip(looked_up) {
            let before = self.newest.get(key).copied();
            let is_right = version.is_none_or(|it| it == self.version || Some(it) == before)
                || self.combination.may_be_old();
            assert!(is_right, "key {key}: {version:?} of {before:?}");
        }
        table(self.server()).update(scopes[1], &keys, &rows).expect("levels");
        self.note(&keys);
        self.walk();
    }

    fn walk(&self) {
        let table = table(self.server());
        for (number, cache) in table.caches().iter().enumerate() {
            table.refresh(number, 0..cache.cache().sets()).expect("a cache");
        }
    }

    fn refresh(&mut self) {
        match (self.combination.redis, self.rng.below(2)) {
            (Size::Absent, 0) => self.server().refresh(),
            _ => self.walk(),
        }
    }

    /// Keys that come into the hot cache before anybody needs them; their rows are dropped.
    fn prefetch(&mut self) {
        let keys = self.keys(100, FILE_KEYS + NEW_KEYS + UNKNOWN_KEYS);
        self.ask(&keys);
    }

    fn look_up(&mut self) {
        let keys = self.keys(80, FILE_KEYS + NEW_KEYS + UNKNOWN_KEYS);
        let (found, stats) = self.ask(&keys);
        self.check(&keys, &found, stats.deferred > 0);
    }

    /// Until nothing is on its way any more.
    fn look_up_all(&self) {
        let all: Vec<i64> = (0..FILE_KEYS + NEW_KEYS + UNKNOWN_KEYS).collect();
        // A part that a small cache has room for.
        for keys in all.chunks(40) {
            let mut found = Vec::new();
            wait_until("no row is on its way", || {
                let stats;
                (found, stats) = self.ask(keys);
                stats.deferred == 0 || self.has_unknown(keys)
            });
            self.check(keys, &found, self.has_unknown(keys));
        }
    }

    /// A key that is nowhere is on its way again and again.
    fn has_unknown(&self, keys: &[i64]) -> bool {
        keys.iter().any(|key| !self.newest.contains_key(key)) || !self.combination.is_complete()
    }

    fn check(&self, keys: &[i64], found: &[Option<u32>], may_be_late: bool) {
        let may_miss = may_be_late || !self.combination.is_complete();
        for (key, version) in keys.iter().zip(found) {
            let want = self.newest.get(key).copied();
            let is_old = version.is_some_and(|version| self.published.contains(&(*key, version)));
            let is_right = *version == want
                || (version.is_none() && may_miss)
                || (is_old && self.combination.may_be_old());
            assert!(is_right, "key {key}: {version:?}, and {want:?} is the newest");
        }
    }

    fn ask(&self, keys: &[i64]) -> (Vec<Option<u32>>, LookupStats) {
        let mut rows = vec![f32::NAN; keys.len() * DIM];
        let stats = self
            .server()
            .look_up(table(self.server()), keys, MissingRows::AsConfigured, &mut rows)
            .expect("keys");
        let versions = keys.iter().zip(rows.chunks(DIM)).map(|(key, row)| version_of(*key, row));
        assert_eq!((stats.keys, stats.unanswered), (keys.len(), 0), "{stats:?}");
        (versions.collect(), stats)
    }

    /// What a level has, it has in the newest version; the persistent one has everything.
    fn check_levels(&self) {
        for level in table(self.server()).levels().levels() {
            let mut count = 0;
            let mut each = |keys: &[i64], rows: &[f32]| {
                count += keys.len();
                for (key, row) in keys.iter().zip(rows.chunks(DIM)) {
                    let found = version_of(*key, row);
                    assert_eq!(found, self.newest.get(key).copied(), "{} {key}", level.name());
                }
                Ok(())
            };
            level.store().scan(100, &mut each).expect("a scan");
            if level.kind() == LevelKind::Persistent {
                assert_eq!(count, self.newest.len());
            }
        }
    }
}

fn check(redis: &[Size], seed: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let file_keys: Vec<i64> = (0..FILE_KEYS).collect();
    write_files(&folder.path().join("files"), &file_keys, 1);
    let cluster = redis.iter().any(|size| *size != Size::Absent).then(RedisCluster::start);
    let nodes = cluster.as_ref().map_or(Vec::new(), RedisCluster::nodes);
    let mut rng = Rng::new(number("TERRACE_SEED", seed));
    let mut combinations = Vec::new();
    for redis in redis.iter().copied() {
        for cache in ["none", "recent", "all", "uvm"] {
            for persistent in ["disabled", "rocksdb", "embedded"] {
                for ram in [Size::Absent, *rng.pick(&[Size::Small, Size::Full])] {
                    let may_defer = redis != Size::Small;
                    let threshold = if may_defer { *rng.pick(&[1.1, 0.5]) } else { 1.1 };
                    let one = Combination { cache, threshold, ram, redis, persistent };
                    combinations.push(one);
                }
            }
        }
    }
    for (number, combination) in combinations.into_iter().enumerate() {
        println!("{number}: {combination:?}");
        History {
            rng: &mut rng,
            config: combination.config(folder.path(), number, &nodes),
            combination,
            server: None,
            newest: file_keys.iter().map(|key| (*key, 1)).collect(),
            published: BTreeSet::new(),
            updated: BTreeSet::new(),
            version: 1,
        }
        .run(STEPS * self::number("TERRACE_HISTORIES", 1));
    }
}

#[test]
fn histories_of_servers_without_redis_agree_with_a_map() {
    check(&[Size::Absent], 1);
}

#[test]
fn histories_of_servers_with_redis_agree_with_a_map() {
    check(&[Size::Full, Size::Small], 2);
}
