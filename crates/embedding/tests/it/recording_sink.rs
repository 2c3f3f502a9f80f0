//! A sink that remembers what it was given, and fails or waits where a test says so.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use terrace_embedding::{
    DenseWeights, KeyKind, RowUpdates, TopicTable, UpdateConsumer, UpdateConsumerConfig, UpdateSink,
};
use terrace_tiers::TierError;

/// By topic and key, the bits of its row.
pub type Rows = BTreeMap<(String, i64), Vec<u32>>;

#[derive(Default)]
pub struct RecordingSink {
    state: Mutex<SinkState>,
    changed: Condvar,
}

#[derive(Default)]
pub struct SinkState {
    pub tables: HashMap<String, TopicTable>,
    /// After so many further questions, a topic has this table.
    pub next_tables: HashMap<String, (usize, TopicTable)>,
    pub rows: Rows,
    /// The dimension of each delivery, by topic.
    pub dims: HashMap<String, Vec<usize>>,
    pub largest_delivery: usize,
    /// Most bytes, by topic of dense weights.
    pub dense: HashMap<String, usize>,
    pub dense_given: Vec<(String, DenseWeights)>,
    /// Topics whose updates fail so many times.
    pub failures: HashMap<String, usize>,
    /// Whether the sink keeps who calls it.
    pub holds: bool,
    /// How many calls it keeps.
    pub held: usize,
}

impl RecordingSink {
    pub fn with_tables(tables: &[(&str, KeyKind, usize)]) -> Arc<Self> {
        let sink = RecordingSink::default();
        for (topic, key_kind, dim) in tables {
            let table = TopicTable { key_kind: *key_kind, dim: *dim };
            sink.lock().tables.insert((*topic).into(), table);
        }
        Arc::new(sink)
    }

    pub fn lock(&self) -> MutexGuard<'_, SinkState> {
        self.state.lock().expect("a test that has not failed")
    }

    pub fn hold(&self, holds: bool) {
        self.lock().holds = holds;
        self.changed.notify_all();
    }

    pub fn fail(&self, topic: &str, times: usize) {
        self.lock().failures.insert(topic.into(), times);
    }

    pub fn has(&self, want: &Rows) -> bool {
        self.lock().rows == *want
    }

    pub fn consume(self: &Arc<Self>, config: UpdateConsumerConfig) -> UpdateConsumer {
        UpdateConsumer::start(config, Arc::clone(self) as Arc<dyn UpdateSink>).expect("a consumer")
    }

    fn enter(&self, topic: &str) -> Result<MutexGuard<'_, SinkState>, TierError> {
        let mut state = self.lock();
        state.held += 1;
        while state.holds {
            state = self.changed.wait(state).expect("a test that has not failed");
        }
        state.held -= 1;
        match state.failures.get_mut(topic) {
            Some(times) if *times > 0 => {
                *times -= 1;
                Err(TierError::Unavailable("a test wants it so".into()))
            }
            _ => Ok(state),
        }
    }
}

impl UpdateSink for RecordingSink {
    fn wants(&self, topic: &str) -> Option<TopicTable> {
        let mut state = self.lock();
        let table = state.tables.get(topic).copied();
        if let Some((questions, next)) = state.next_tables.get_mut(topic) {
            if *questions == 0 {
                return Some(*next);
            }
            *questions -= 1;
        }
        table
    }

    fn apply(&self, topic: &str, update: &RowUpdates<'_>) -> Result<(), TierError> {
        let mut state = self.enter(topic)?;
        let keys: HashSet<_> = update.keys.iter().collect();
        assert_eq!(keys.len(), update.keys.len(), "a key twice in a delivery");
        assert_eq!(update.rows.len(), update.keys.len() * update.dim);
        for (key, row) in update.keys.iter().zip(update.rows.chunks(update.dim)) {
            let bits = row.iter().map(|float| float.to_bits()).collect();
            state.rows.insert((topic.into(), *key), bits);
        }
        state.dims.entry(topic.into()).or_default().push(update.dim);
        state.largest_delivery = state.largest_delivery.max(update.keys.len());
        Ok(())
    }

    fn wants_dense(&self, topic: &str) -> Option<usize> {
        self.lock().dense.get(topic).copied()
    }

    fn apply_dense(&self, topic: &str, weights: &DenseWeights) -> Result<(), TierError> {
        self.enter(topic)?.dense_given.push((topic.into(), weights.clone()));
        Ok(())
    }
}

/// Rows of keys, different for each `seed`; every eighth has bits that are no number.
pub fn made_rows(topic: &str, keys: &[i64], dim: usize, seed: u32) -> (Vec<f32>, Rows) {
    let bits = |key: i64, at: usize| match (key as usize + at) % 8 {
        0 => 0x7fc0_0000 | (seed & 0xffff),
        1 => f32::NEG_INFINITY.to_bits(),
        _ => (key as f32 + at as f32 / 16.0 + seed as f32 * 1000.0).to_bits(),
    };
    let mut floats = Vec::with_capacity(keys.len() * dim);
    let mut rows = Rows::new();
    for &key in keys {
        let row: Vec<u32> = (0..dim).map(|at| bits(key, at)).collect();
        floats.extend(row.iter().map(|bits| f32::from_bits(*bits)));
        rows.insert((topic.into(), key), row);
    }
    (floats, rows)
}
