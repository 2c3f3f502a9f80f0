//! A table that updates come to: where they begin, and how far those who bring them have come.
//!
//! Several may bring them, for one topic each: a table that models share has the topics of those
//! that are served. Nobody here keeps the table or its consumers from ending.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::feed::{ConsumerCounters, ConsumerWatch, Offsets};
use crate::lookup::ServedTable;
use crate::table_spec::TableSpec;
use crate::table_tag::TableTag;

pub struct FedTable {
    pub table: Weak<ServedTable>,
    pub spec: TableSpec,
    /// When its files were written, in ms since 1970.
    pub version_ms: u64,
    /// Its persistent storage, which what is committed belongs to; `None` where it has none of its
    /// own.
    pub storage: Option<TableTag>,
    /// Whether updates are for its rows in Redis, too.
    pub is_shared: bool,
    books: Mutex<Books>,
}

/// What the names of Kafka's groups have at their ends. What is committed of a topic belongs to the
/// rows that it was written to: a group is of one storage, and of one table in Redis. Those that
/// are called as the topic have the plain names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupEnds {
    pub own: String,
    pub shared: String,
}

pub struct FedTableConfig {
    pub table: Arc<ServedTable>,
    pub version_ms: u64,
    pub storage: Option<TableTag>,
    /// Topics of which its own levels have applied all that was published since, up to what is
    /// committed.
    pub replayed: BTreeSet<String>,
    pub is_shared: bool,
}

#[derive(Default)]
struct Books {
    is_over: bool,
    replayed: BTreeSet<String>,
    /// Consumers for the table's own levels, by topic.
    watches: BTreeMap<String, ConsumerWatch>,
    /// Where those have ended that were there before.
    ended_at: HashMap<(String, i32), i64>,
}

/// All that was published is applied: so long it must have been so before it is believed.
const AT_END_FOR: Duration = Duration::from_secs(2);

impl FedTable {
    pub fn new(config: FedTableConfig) -> Self {
        FedTable {
            table: Arc::downgrade(&config.table),
            spec: config.table.spec().clone(),
            version_ms: config.version_ms,
            storage: config.storage,
            is_shared: config.is_shared,
            books: Mutex::new(Books { replayed: config.replayed, ..Books::default() }),
        }
    }

    /// Of the groups that its updates from a topic are read for.
    pub fn group_ends(&self, topic: &str) -> GroupEnds {
        let tag = &self.spec.tag;
        let is_named_so = topic == tag.kafka_topic();
        let own = match &self.storage {
            None => String::new(),
            Some(storage) if is_named_so => {
                let number = storage.as_str().strip_prefix(tag.as_str());
                number.expect("a storage has its table's name").to_owned()
            }
            Some(storage) => format!(".{storage}"),
        };
        let is_plain = is_named_so || !self.is_shared;
        let shared = if is_plain { String::new() } else { format!(".{tag}") };
        GroupEnds { own, shared }
    }

    /// A consumer begins with a topic.
    pub fn begin_topic(&self, topic: &str, watch: &ConsumerWatch) {
        self.lock().watches.insert(topic.to_owned(), watch.clone());
    }

    /// A consumer has ended with a topic.
    pub fn end_topic(&self, topic: &str, watch: &ConsumerWatch, applied: Offsets) {
        let mut books = self.lock();
        if books.watches.get(topic).is_some_and(|it| it.is_of(watch)) {
            books.watches.remove(topic);
        }
        let applied = applied.into_iter().map(|(at, offset)| ((topic.to_owned(), at), offset));
        books.ended_at.extend(applied);
    }

    /// Where partitions of a topic are read on, of those that were read before.
    pub fn resume_at(&self, topic: &str) -> HashMap<(String, i32), i64> {
        let books = self.lock();
        let of_topic = books.ended_at.iter().filter(|((of, _), _)| of == topic);
        of_topic.map(|(partition, at)| (partition.clone(), *at)).collect()
    }

    /// Whether its own levels have applied all of a topic that was published since its files were
    /// written, up to what is committed.
    pub fn has_replayed(&self, topic: &str) -> bool {
        self.lock().replayed.contains(topic)
    }

    pub fn set_replayed(&self, topic: &str) {
        self.lock().replayed.insert(topic.to_owned());
    }

    /// Topics of which it has not, and what their consumers have done.
    pub fn unreplayed(&self) -> Vec<(String, ConsumerCounters)> {
        let books = self.lock();
        let unreplayed = books.watches.iter().filter(|(topic, _)| !books.replayed.contains(*topic));
        unreplayed.map(|(topic, watch)| (topic.clone(), watch.counters())).collect()
    }

    /// Topics that come to it now.
    pub fn topics(&self) -> Vec<String> {
        self.lock().watches.keys().cloned().collect()
    }

    /// What its consumers have done; a consumer of several topics of it is there for each.
    pub fn consumers(&self) -> Vec<ConsumerCounters> {
        self.lock().watches.values().map(ConsumerWatch::counters).collect()
    }

    /// Whether all that is published has been applied for a while.
    pub fn is_at_end(&self) -> bool {
        let is_at_end =
            |it: &ConsumerCounters| it.at_end_for.is_some_and(|time| time >= AT_END_FOR);
        self.consumers().iter().all(is_at_end)
    }

    /// Whether all that was published by then is applied.
    pub fn is_applied_until(&self, time: Instant) -> bool {
        self.consumers().iter().all(|it| it.applied_until.is_some_and(|until| until >= time))
    }

    /// Calls `work` unless the table is over, which waits for it.
    pub fn while_living<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let books = self.lock();
        (!books.is_over).then(work)
    }

    pub fn end(&self) {
        self.lock().is_over = true;
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_kind::KeyKind;
    use crate::table_tag::TagStyle;

    #[test]
    fn groups_are_of_one_storage_and_of_one_table_in_redis() {
        let tag = TagStyle::Hps.table_tag("m", "t");
        let check = |storage: Option<u32>, is_shared: bool, topic: &str, want: [&str; 2]| {
            let spec =
                TableSpec { tag: tag.clone(), key_kind: KeyKind::I64, dim: 4, default_value: 0.0 };
            let fed = FedTable {
                table: Weak::new(),
                spec,
                version_ms: 0,
                storage: storage.map(|slot| tag.storage(slot)),
                is_shared,
                books: Mutex::default(),
            };
            let ends = fed.group_ends(topic);
            assert_eq!([ends.own.as_str(), &ends.shared], want);
        };
        check(None, true, "hps_et.m.t", ["", ""]);
        check(Some(0), true, "hps_et.m.t", ["", ""]);
        check(Some(2), true, "hps_et.m.t", [".2", ""]);
        check(Some(0), false, "hps_et.n.t", [".hps_et.m.t", ""]);
        check(Some(2), true, "hps_et.n.t", [".hps_et.m.t.2", ".hps_et.m.t"]);
        check(None, true, "hps_et.n.t", ["", ".hps_et.m.t"]);
    }
}
