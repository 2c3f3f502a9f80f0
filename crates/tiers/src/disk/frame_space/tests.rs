//! Random histories: books agree, and nobody's frame is given to another.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Put {
        key: u8,
        priority: u8,
        fails: bool,
    },
    /// Stays under way until `Finish`.
    PutSlowly {
        key: u8,
        priority: u8,
    },
    Finish,
    Read {
        key: u8,
    },
    EndRead,
    Remove {
        key: u8,
    },
    SetLimit {
        frames: usize,
    },
}

fn ops() -> impl Strategy<Value = Op> {
    let key = 0u8..12;
    let priority = prop_oneof![Just(35u8), 0u8..=100];
    prop_oneof![
        4 => (key.clone(), priority.clone(), prop::bool::weighted(0.1))
            .prop_map(|(key, priority, fails)| Op::Put { key, priority, fails }),
        2 => (key.clone(), priority).prop_map(|(key, priority)| Op::PutSlowly { key, priority }),
        2 => Just(Op::Finish),
        3 => key.clone().prop_map(|key| Op::Read { key }),
        2 => Just(Op::EndRead),
        1 => key.prop_map(|key| Op::Remove { key }),
        1 => (0usize..8).prop_map(|frames| Op::SetLimit { frames }),
    ]
}

fn page_key(key: u8) -> PageKey {
    PageKey::from_bytes([key; 32])
}

/// A space, what a model of it knows, and what is under way.
struct History {
    space: FrameSpace,
    /// What lies in each frame, as far as anybody may rely on it.
    bytes: BTreeMap<FrameId, u8>,
    writes: Vec<(FrameId, u8, Retention)>,
    reads: Vec<(FrameId, u8)>,
    now_ms: u64,
}

impl History {
    fn run(&mut self, op: Op) {
        self.now_ms += 1;
        match op {
            Op::Put { key, priority, fails } => {
                self.reserve(key, priority);
                match (self.writes.last(), fails) {
                    (Some(&(frame, last, _)), true) if last == key => {
                        self.writes.pop();
                        self.space.release(frame);
                    }
                    _ => self.finish(),
                }
            }
            Op::PutSlowly { key, priority } => self.reserve(key, priority),
            Op::Finish => self.finish(),
            Op::Read { key } => {
                let frame = self.space.hold(&page_key(key));
                assert_eq!(frame.is_some(), self.space.contains(&page_key(key)));
                self.reads.extend(frame.map(|frame| (frame, key)));
            }
            Op::EndRead => {
                if let Some((frame, key)) = self.reads.pop() {
                    assert_eq!(self.bytes[&frame], key, "what was read from {frame:?}");
                    self.space.release(frame);
                }
            }
            Op::Remove { key } => {
                if let Some(frame) = self.space.hold(&page_key(key)) {
                    assert_eq!(self.space.forget(frame), Some(page_key(key)));
                    self.space.release(frame);
                }
            }
            Op::SetLimit { frames } => {
                for gone in self.space.set_limit(frames) {
                    assert!(!self.space.contains(&gone));
                }
            }
        }
        self.space.trim();
        self.space.check();
    }

    fn reserve(&mut self, key: u8, priority: u8) {
        let retention = Retention { priority, expires_ms: Some(self.now_ms + 5) };
        match self.space.reserve(&page_key(key), retention, self.now_ms) {
            Reserved::NoRoom => {}
            Reserved::Present { frame, known, .. } => {
                assert_eq!(self.bytes[&frame], key, "what lies in {frame:?}");
                assert!(known.retention.priority >= priority);
                self.space.release(frame);
            }
            Reserved::Write { frame, evicted } => {
                let holders = self.reads.iter().filter(|read| read.0 == frame).count();
                let writers = self.writes.iter().filter(|write| write.0 == frame).count();
                assert_eq!((holders, writers), (0, 0), "{frame:?} is in use");
                assert!(evicted.is_none_or(|gone| !self.space.contains(&gone)));
                self.bytes.insert(frame, key);
                self.writes.push((frame, key, retention));
            }
        }
    }

    fn finish(&mut self) {
        let Some((frame, key, retention)) = self.writes.pop() else { return };
        let known = self.space.written(frame, page_key(key), retention);
        assert!(known.is_none_or(|known| known.key == page_key(key)));
        self.space.release(frame);
    }
}

proptest! {
    #[test]
    fn books_agree_and_frames_in_use_stay(
        ops in prop::collection::vec(ops(), 1..120),
        limit in 0usize..8,
        rule in prop::sample::select(vec![
            PlacementRule::Lru, PlacementRule::TinyLfu, PlacementRule::Arc
        ]),
    ) {
        let space = FrameSpace::new(rule, Vec::new(), limit);
        let (bytes, writes, reads) = Default::default();
        let mut history = History { space, bytes, writes, reads, now_ms: 0 };
        ops.into_iter().for_each(|op| history.run(op));
        while !history.writes.is_empty() {
            history.run(Op::Finish);
        }
        while !history.reads.is_empty() {
            history.run(Op::EndRead);
        }
        let idle = history.space.records();
        let free = history.space.free.len();
        prop_assert_eq!(idle + free, history.space.frames(), "all are idle or free");
        prop_assert!(history.space.frames() <= history.space.limit);
    }
}

#[test]
fn the_newest_of_two_frames_with_one_key_counts_after_a_restart() {
    let known = |key, sequence| {
        Some(Known { key: page_key(key), sequence, retention: Retention::default() })
    };
    let frames = vec![known(1, 9), known(2, 4), known(1, 3), None];
    let mut space = FrameSpace::new(PlacementRule::Lru, frames, 4);
    space.check();
    assert_eq!(space.records(), 2);
    assert_eq!(space.hold(&page_key(1)), Some(FrameId(0)));
    let reserved = space.reserve(&page_key(3), Retention::default(), 0);
    assert_eq!(reserved, Reserved::Write { frame: FrameId(2), evicted: None });
    let known = space.written(FrameId(2), page_key(3), Retention::default());
    assert_eq!(known.map(|known| known.sequence), Some(10));
}
