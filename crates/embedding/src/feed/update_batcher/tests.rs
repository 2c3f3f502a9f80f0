//! The batcher against a simple model of a broker and a sink.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;

use super::super::update_message::UpdateMessage;
use super::*;
use crate::key_kind::KeyKind;

const LIMITS: BatchLimits = BatchLimits { keys_most: 3, messages_per_commit: 5 };
const PARTITIONS: usize = 2;
const DENSE: &str = "dense";
const DENSE_BYTES_MOST: usize = 64;

fn place(partition: usize, offset: usize) -> MessagePlace {
    MessagePlace { partition: partition as i32, offset: offset as i64, timestamp_ms: Some(7) }
}

fn payload(rows: &[(i64, f32)], dim: usize) -> Vec<u8> {
    let rows: Vec<_> = rows.iter().map(|(key, value)| (*key, vec![*value; dim])).collect();
    let rows = rows.iter().map(|(key, row)| (*key, row.as_slice()));
    let mut payload = Vec::new();
    let emit = |message: &[u8]| {
        payload = message.to_vec();
        Ok(())
    };
    UpdateMessage::encode(KeyKind::I64, dim, 1 << 16, rows, emit).expect("few rows");
    payload
}

fn add_rows(batcher: &mut UpdateBatcher, at: (usize, usize), rows: &[(i64, f32)], dim: usize) {
    let payload = payload(rows, dim);
    match UpdateMessage::decode(&payload, KeyKind::I64).expect("rows") {
        UpdateMessage::Rows(rows) => batcher.add_rows("t", place(at.0, at.1), rows),
        UpdateMessage::Beacon => batcher.pass_over("t", place(at.0, at.1)),
    }
}

fn front_rows(batcher: &UpdateBatcher) -> Option<(Vec<i64>, Vec<f32>, usize)> {
    match batcher.front("t")? {
        Delivery::Rows(rows) => Some((rows.keys.to_vec(), rows.rows.to_vec(), rows.dim)),
        Delivery::Dense(weights) => panic!("{weights:?}"),
    }
}

fn offset(partition: i32, offset: i64) -> PartitionOffset {
    PartitionOffset { topic: "t".into(), partition, offset }
}

#[test]
fn nothing_is_ready_before_a_batch_is_full_or_sealed() {
    let mut batcher = UpdateBatcher::new(LIMITS);
    add_rows(&mut batcher, (0, 0), &[(1, 1.0), (2, 2.0)], 1);
    assert_eq!(batcher.ready_topics().count(), 0);
    add_rows(&mut batcher, (0, 1), &[(1, 3.0), (3, 4.0)], 1);
    assert_eq!(batcher.ready_topics().collect::<Vec<_>>(), ["t"]);
    assert_eq!(front_rows(&batcher), Some((vec![1, 2, 3], vec![3.0, 2.0, 4.0], 1)));
    assert_eq!(batcher.applied("t"), Applied { rows: 3, timestamp_ms: Some(7) });
    assert_eq!(batcher.take_commit(), [], "five messages, or a rest, make a commit due");
    batcher.seal_all();
    assert_eq!(batcher.take_commit(), [offset(0, 2)]);
    batcher.seal_all();
    assert_eq!(batcher.take_commit(), [], "the same offset is committed once");
    batcher.commit_again();
    assert_eq!(batcher.take_commit(), [offset(0, 2)]);
}

#[test]
fn a_message_of_many_rows_is_applied_when_its_last_row_is() {
    let mut batcher = UpdateBatcher::new(LIMITS);
    let rows: Vec<_> = (0..7).map(|key| (key, key as f32)).collect();
    add_rows(&mut batcher, (1, 4), &rows, 1);
    batcher.seal_all();
    for (want, is_last) in [(vec![0, 1, 2], false), (vec![3, 4, 5], false), (vec![6], true)] {
        assert_eq!(front_rows(&batcher).expect("a batch").0, want);
        batcher.applied("t");
        let committed = batcher.take_all();
        assert_eq!(committed, if is_last { vec![offset(1, 5)] } else { vec![] });
    }
}

#[test]
fn another_dim_begins_another_batch() {
    let mut batcher = UpdateBatcher::new(LIMITS);
    add_rows(&mut batcher, (0, 0), &[(1, 1.0)], 1);
    add_rows(&mut batcher, (0, 1), &[(1, 2.0)], 2);
    assert_eq!(front_rows(&batcher), Some((vec![1], vec![1.0], 1)));
    batcher.applied("t");
    assert_eq!(front_rows(&batcher), None, "the second is still open");
    batcher.seal_partition(1);
    assert_eq!(front_rows(&batcher), None, "nothing of partition 1 is in it");
    batcher.seal_partition(0);
    assert_eq!(front_rows(&batcher), Some((vec![1], vec![2.0, 2.0], 2)));
}

#[test]
fn a_dropped_message_waits_for_those_before_it() {
    let mut batcher = UpdateBatcher::new(LIMITS);
    batcher.pass_over("t", place(0, 0));
    assert_eq!(batcher.take_all(), [offset(0, 1)]);
    add_rows(&mut batcher, (0, 1), &[(1, 1.0)], 1);
    batcher.pass_over("t", place(0, 2));
    assert_eq!(batcher.take_all(), []);
    batcher.seal_all();
    batcher.applied("t");
    assert_eq!(batcher.take_all(), [offset(0, 3)]);
}

#[test]
fn parts_hold_back_what_comes_after_them_until_they_are_whole() {
    let mut batcher = UpdateBatcher::new(LIMITS);
    let parts: Vec<_> = DensePart::split(1, &[5; 20], 50).collect();
    let part = |index: usize| DensePart::decode(&parts[index]).expect("a part");
    let add = |batcher: &mut UpdateBatcher, partition, offset, index| {
        batcher.add_dense("t", place(partition, offset), &part(index), DENSE_BYTES_MOST)
    };
    assert_eq!(add(&mut batcher, 0, 3, 1), Ok(()));
    batcher.pass_over("t", place(1, 8));
    batcher.seal_all();
    assert_eq!(batcher.front("t"), None);
    assert_eq!(batcher.take_all(), []);
    assert_eq!(add(&mut batcher, 0, 4, 0), Ok(()));
    let Some(Delivery::Dense(weights)) = batcher.front("t") else { panic!("weights") };
    assert_eq!((weights.version, weights.safetensors.as_slice()), (1, [5; 20].as_slice()));
    assert_eq!(batcher.take_all(), []);
    batcher.applied("t");
    assert_eq!(batcher.take_all(), [offset(0, 5), offset(1, 9)]);
}

/// What a broker has, by topic and partition.
type Log = BTreeMap<(String, usize), Vec<Entry>>;

#[derive(Clone, Debug)]
enum Entry {
    /// Keys with values that grow with the offset.
    Rows(Vec<(i64, f32)>, usize),
    Garbage,
    Part(u64, Vec<u8>),
}

#[derive(Clone, Debug)]
enum Step {
    /// From which topic, and partition.
    Feed(usize, usize),
    SealAll,
    SealPartition(usize),
    Deliver(usize, bool),
    Commit(bool),
    Revoke,
}

fn topic(index: usize) -> String {
    ["a", "b", DENSE][index % 3].to_owned()
}

fn logs() -> impl Strategy<Value = Log> {
    let rows = (prop::collection::vec(0i64..4, 1..9), 1usize..3);
    let entry = prop_oneof![4 => rows.prop_map(Some), 1 => Just(None)];
    let of_topic = prop::collection::vec((0..PARTITIONS, entry), 0..25);
    // Of each version, which part never came.
    let versions = prop::collection::vec(prop::option::of(0usize..3), 0..4);
    (prop::collection::vec(of_topic, 2), versions).prop_map(|(topics, versions)| {
        let mut log = Log::new();
        for (index, entries) in topics.into_iter().enumerate() {
            for (number, (partition, entry)) in entries.into_iter().enumerate() {
                // A key is in one partition only.
                let own = |key: i64| key * PARTITIONS as i64 + partition as i64;
                let entry = entry.map_or(Entry::Garbage, |(keys, dim)| {
                    let values = (0..).map(|row| (number * 10 + row) as f32);
                    Entry::Rows(keys.into_iter().map(own).zip(values).collect(), dim)
                });
                log.entry((topic(index), partition)).or_default().push(entry);
            }
        }
        let count = versions.len() as u64;
        for (version, missing) in (1..).zip(versions) {
            let weights = [version as u8; 30];
            let parts = DensePart::split(version, &weights, 50).enumerate();
            // The last version is always whole.
            let sent = parts.filter(|(part, _)| version == count || missing != Some(*part));
            let sent = sent.map(|(_, part)| Entry::Part(version, part));
            log.entry((DENSE.into(), 0)).or_default().extend(sent);
        }
        log
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0usize..3, 0..PARTITIONS).prop_map(|(topic, partition)| Step::Feed(topic, partition)),
        1 => Just(Step::SealAll),
        1 => (0..PARTITIONS).prop_map(Step::SealPartition),
        4 => (0usize..3, any::<bool>()).prop_map(|(topic, is_ok)| Step::Deliver(topic, is_ok)),
        3 => any::<bool>().prop_map(Step::Commit),
        1 => Just(Step::Revoke),
    ];
    prop::collection::vec(step, 0..150)
}

/// A broker, a sink, and the batcher between them.
struct World {
    log: Log,
    batcher: UpdateBatcher,
    read: BTreeMap<(String, usize), usize>,
    committed: BTreeMap<(String, usize), usize>,
    sink: BTreeMap<(String, i64), f32>,
    dense: u64,
}

impl World {
    fn new(log: Log) -> Self {
        World {
            log,
            batcher: UpdateBatcher::new(LIMITS),
            read: BTreeMap::new(),
            committed: BTreeMap::new(),
            sink: BTreeMap::new(),
            dense: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Feed(index, partition) => self.feed(topic(index), partition),
            Step::SealAll => self.batcher.seal_all(),
            Step::SealPartition(partition) => self.batcher.seal_partition(partition as i32),
            Step::Deliver(index, is_ok) => self.deliver(&topic(index), is_ok),
            Step::Commit(is_ok) => self.commit(is_ok),
            Step::Revoke => {
                self.batcher.clear();
                self.read = self.committed.clone();
            }
        }
    }

    fn feed(&mut self, topic: String, partition: usize) {
        let key = (topic, partition);
        let offset = self.read.get(&key).copied().unwrap_or(0);
        let Some(entry) = self.log.get(&key).and_then(|entries| entries.get(offset)) else {
            return;
        };
        let (topic, at) = (key.0.as_str(), place(partition, offset));
        match entry {
            Entry::Rows(rows, dim) => {
                let payload = payload(rows, *dim);
                match UpdateMessage::decode(&payload, KeyKind::I64) {
                    Ok(UpdateMessage::Rows(rows)) => self.batcher.add_rows(topic, at, rows),
                    other => panic!("{other:?}"),
                }
            }
            Entry::Garbage => self.batcher.pass_over(topic, at),
            Entry::Part(_, part) => {
                let part = DensePart::decode(part).expect("a part");
                self.batcher.add_dense(topic, at, &part, DENSE_BYTES_MOST).expect("small weights");
            }
        }
        self.read.insert(key, offset + 1);
    }

    fn deliver(&mut self, topic: &str, is_ok: bool) {
        match self.batcher.front(topic) {
            Some(Delivery::Rows(rows)) => {
                let unique: HashSet<_> = rows.keys.iter().collect();
                assert_eq!(unique.len(), rows.keys.len(), "{:?}", rows.keys);
                assert!((1..=LIMITS.keys_most).contains(&rows.keys.len()), "{:?}", rows.keys);
                assert_eq!(rows.rows.len(), rows.keys.len() * rows.dim);
                // What fails may have been written in part.
                let written = if is_ok { rows.keys.len() } else { rows.keys.len() / 2 };
                for (key, row) in rows.keys.iter().zip(rows.rows.chunks(rows.dim)).take(written) {
                    self.sink.insert((topic.to_owned(), *key), row[0]);
                }
            }
            Some(Delivery::Dense(weights)) if is_ok => {
                assert_eq!(weights.safetensors, [weights.version as u8; 30]);
                self.dense = weights.version;
            }
            Some(Delivery::Dense(_)) => {}
            None => return,
        }
        if is_ok {
            self.batcher.applied(topic);
        }
    }

    fn commit(&mut self, is_ok: bool) {
        for PartitionOffset { topic, partition, offset } in self.batcher.take_commit() {
            self.check_applied(&topic, partition as usize, offset as usize);
            if is_ok {
                self.committed.insert((topic, partition as usize), offset as usize);
            }
        }
        if !is_ok {
            self.batcher.commit_again();
        }
    }

    /// The sink has, of everything before the offset, the last value or a later one.
    fn check_applied(&self, topic: &str, partition: usize, offset: usize) {
        for entry in &self.log[&(topic.to_owned(), partition)][..offset] {
            match entry {
                Entry::Rows(rows, _) => {
                    for (key, value) in rows {
                        let found = self.sink.get(&(topic.to_owned(), *key));
                        assert!(found.is_some_and(|found| found >= value), "{topic} key {key}");
                    }
                }
                Entry::Part(version, _) => assert!(self.dense >= *version, "version {version}"),
                Entry::Garbage => {}
            }
        }
    }

    /// All messages come, and nothing fails any more.
    fn finish(&mut self) {
        for (topic, partition) in self.log.clone().into_keys() {
            for _ in 0..self.log[&(topic.clone(), partition)].len() {
                self.feed(topic.clone(), partition);
            }
        }
        self.batcher.seal_all();
        for index in 0..3 {
            while self.batcher.front(&topic(index)).is_some() {
                self.deliver(&topic(index), true);
            }
        }
        self.commit(true);
    }
}

proptest! {
    #[test]
    fn nothing_is_committed_that_was_not_applied(log in logs(), steps in steps()) {
        let mut world = World::new(log);
        for step in steps {
            world.step(step);
            world.batcher.check();
        }
        world.finish();
        let mut last = BTreeMap::new();
        for ((topic, partition), entries) in &world.log {
            let all = Some(&entries.len());
            prop_assert_eq!(world.committed.get(&(topic.clone(), *partition)), all);
            for entry in entries {
                if let Entry::Rows(rows, _) = entry {
                    let rows = rows.iter().map(|(key, value)| ((topic.clone(), *key), *value));
                    last.extend(rows);
                }
            }
        }
        prop_assert_eq!(&world.sink, &last);
    }
}
