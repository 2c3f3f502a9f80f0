//! Users on host, disk and Redis: wherever their pages are, and whatever becomes of an engine,
//! scores are those of an engine that has nothing cached.

use std::path::Path;

use terrace_cache::users::UserKey;
use terrace_engine::rank::{RankConfig, RankHandle, RankRequest};
use terrace_engine::{DiskLevel, KvTiers};
use terrace_kernels::Compute;
use terrace_testkit::{Rng, TinyRanker};

use crate::ranking::{config, engine, grow, item, rank, request, runtime};

/// A device for a few users, a little host memory, and a disk.
fn on_disk(folder: &Path, disk_pages: u64) -> RankConfig {
    let page_bytes = 16 * 2 * 2 * 32 * 4;
    let tiers = KvTiers {
        host_bytes: Some(20 * page_bytes),
        disk: Some(DiskLevel { folder: folder.into(), bytes: disk_pages * 3 * page_bytes as u64 }),
        wait_ms: Some(5000),
        write_through: true,
        ..KvTiers::default()
    };
    RankConfig { tiers, max_step_tokens: 53, ..config(24, 16) }
}

/// A history grows, is edited, or is asked for again.
fn change(rng: &mut Rng, asked: &mut RankRequest) {
    match rng.below(12) {
        0 if !asked.items.is_empty() => {
            let at = rng.below(asked.items.len());
            asked.items[at] = item(rng);
        }
        1 => asked.context[1] = rng.below(7) as i64,
        _ => {
            let events = rng.below(20);
            grow(rng, asked, events);
        }
    }
}

#[test]
fn users_come_back_from_host_and_disk_also_after_restarts() {
    for (seed, compute) in [(11, Compute::F32), (12, Compute::Fast)] {
        let mut rng = Rng::new(seed);
        let model = TinyRanker::new(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let fresh = engine(&model, compute, config(64, 16));
        let mut cached = engine(&model, compute, on_disk(folder.path(), 200));
        let mut users: Vec<RankRequest> =
            (0..12).map(|user| request(&mut rng, &user.to_string(), 0, 1)).collect();
        let (mut device, mut host, mut lower, mut after_restart) = (0, 0, 0, 0);
        let mut seen = [false; 12];
        for _ in 0..260 {
            if rng.below(40) == 0 {
                if rng.below(2) == 0 {
                    runtime().block_on(cached.flush()).unwrap();
                }
                drop(cached);
                cached = engine(&model, compute, on_disk(folder.path(), 200));
                seen = [false; 12];
            }
            let user = rng.below(users.len());
            change(&mut rng, &mut users[user]);
            let found = rank(&cached, &users[user]).unwrap();
            runtime().block_on(fresh.evict_all()).unwrap();
            let want = rank(&fresh, &users[user]).unwrap();
            assert_eq!(found.logits, want.logits, "seed {seed}, user {user}");
            device += found.cached_tokens - found.host_tokens - found.lower_tokens;
            (host, lower) = (host + found.host_tokens, lower + found.lower_tokens);
            after_restart += if seen[user] { 0 } else { found.lower_tokens };
            seen[user] = true;
        }
        let hits = [device, host, lower, after_restart];
        assert!(hits.iter().all(|tokens| 200 < *tokens), "device, host, below, restarts: {hits:?}");
    }
}

#[test]
fn many_threads_share_levels_and_get_the_scores_of_one() {
    let mut rng = Rng::new(14);
    let model = TinyRanker::new(14);
    let folder = tempfile::tempdir().expect("a folder");
    let alone = engine(&model, Compute::Fast, config(64, 16));
    let shared = engine(&model, Compute::Fast, on_disk(folder.path(), 60));
    let mut users: Vec<RankRequest> =
        (0..10).map(|user| request(&mut rng, &user.to_string(), 8, 1)).collect();
    let asked: Vec<RankRequest> = (0..160)
        .map(|_| {
            let user = rng.below(users.len());
            change(&mut rng, &mut users[user]);
            users[user].clone()
        })
        .collect();
    let want: Vec<_> = asked.iter().map(|asked| rank(&alone, asked).unwrap().logits).collect();
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (asked, want, shared) = (&asked, &want, &shared);
            scope.spawn(move || {
                for i in (worker..asked.len()).step_by(8) {
                    assert_eq!(rank(shared, &asked[i]).unwrap().logits, want[i], "request {i}");
                    if i % 50 == 7 {
                        runtime().block_on(shared.remove_user(asked[i].user.clone())).unwrap();
                    }
                }
            });
        }
    });
    let stats = runtime().block_on(shared.stats()).unwrap();
    assert!(0 < stats.tier_pages.written && 0 < stats.tier_pages.read, "{:?}", stats.tier_pages);
}

#[test]
fn a_removed_user_is_gone_from_every_level() {
    let mut rng = Rng::new(13);
    let model = TinyRanker::new(13);
    let folder = tempfile::tempdir().expect("a folder");
    let start = || -> RankHandle { engine(&model, Compute::F32, on_disk(folder.path(), 200)) };
    let handle = start();
    let (anna, ben) = (request(&mut rng, "anna", 40, 3), request(&mut rng, "ben", 40, 3));
    for asked in [&anna, &ben] {
        rank(&handle, asked).unwrap();
    }
    runtime().block_on(handle.flush()).unwrap();
    // Of 82 tokens five pages are full, and the disk has these.
    let removed = runtime().block_on(handle.remove_user(anna.user.clone())).unwrap();
    assert_eq!((removed.users, removed.tokens), (1, 82));
    assert_eq!(removed.lower.len(), 1);
    assert_eq!((removed.lower[0].records, removed.lower[0].failed), (5, false));
    let again = runtime().block_on(handle.remove_user(anna.user.clone())).unwrap();
    assert_eq!((again.users, again.lower[0].records), (0, 0));
    drop(handle);
    let handle = start();
    assert_eq!(rank(&handle, &anna).unwrap().cached_tokens, 0);
    assert_eq!(rank(&handle, &ben).unwrap().cached_tokens, 80);
    runtime().block_on(handle.flush()).unwrap();
    // Somebody who is not known any more is removed all the same.
    drop(handle);
    let handle = start();
    let removed = runtime().block_on(handle.remove_user(ben.user)).unwrap();
    assert_eq!((removed.users, removed.lower[0].records), (0, 5));
    let all = runtime().block_on(handle.evict_all()).unwrap();
    assert_eq!(all.lower[0].records, 5, "anna's, who came back");
    assert_eq!(rank(&handle, &anna).unwrap().cached_tokens, 0);
}

#[test]
fn a_request_that_waits_too_long_is_refused() {
    let mut rng = Rng::new(15);
    let model = TinyRanker::new(15);
    let handle = engine(&model, Compute::F32, config(64, 16));
    let late = RankRequest { timeout_ms: Some(0), ..request(&mut rng, "anna", 5, 2) };
    let refused = rank(&handle, &late).unwrap_err().to_string();
    assert!(refused.starts_with("not begun within 0 ms"), "{refused}");
    let nobody = runtime().block_on(handle.span(UserKey::new("", "anna"))).unwrap();
    assert_eq!(nobody.length, 0);
    let in_time = RankRequest { timeout_ms: Some(60_000), ..late };
    rank(&handle, &in_time).unwrap();
}

#[test]
fn steps_copies_and_tiers_are_seen_in_a_trace() {
    let (model, mut rng) = (TinyRanker::new(14), Rng::new(14));
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.json");
    let config = RankConfig { trace: Some(trace.clone()), ..on_disk(folder.path(), 200) };
    let engine = engine(&model, Compute::F32, config);
    let requests: Vec<RankRequest> =
        (0..8).map(|user| request(&mut rng, &user.to_string(), 60, 3)).collect();
    for _ in 0..3 {
        requests.iter().for_each(|request| drop(rank(&engine, request).unwrap()));
    }
    drop(engine);
    let text = std::fs::read_to_string(trace).expect("a trace");
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a list of events");
    let count = |name: &str, phase: &str| {
        events.iter().filter(|event| event["name"] == name && event["ph"] == phase).count()
    };
    assert!(24 <= count("rank", "X"), "a step of each request");
    for name in ["to host", "to device", "write", "read"] {
        assert!(0 < count(name, "b"), "{name}");
        assert!(count(name, "e") <= count(name, "b"), "{name}");
    }
}
