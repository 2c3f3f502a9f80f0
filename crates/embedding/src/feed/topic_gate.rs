//! Which topics of a consumer are over while it goes on with others, and how far each was applied.
//!
//! Whoever ends a topic waits for a delivery of it that is under way. After that nothing of it is
//! applied, and nothing of it that was not applied is committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::topic_queue::Offsets;

#[derive(Default)]
pub struct TopicGate {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    ended: BTreeSet<String>,
    applied: BTreeMap<String, Offsets>,
}

/// While somebody has it, no topic ends.
pub struct OpenTopic<'a> {
    books: MutexGuard<'a, Books>,
}

impl TopicGate {
    /// For one delivery; `None` where the topic is over.
    pub fn open(&self, topic: &str) -> Option<OpenTopic<'_>> {
        let books = self.lock();
        (!books.ended.contains(topic)).then_some(OpenTopic { books })
    }

    /// Up to where its partitions were applied, as far as anything was.
    pub fn end(&self, topic: &str) -> Offsets {
        let mut books = self.lock();
        books.ended.insert(topic.to_owned());
        books.applied.remove(topic).unwrap_or_default()
    }

    pub fn is_ended(&self, topic: &str) -> bool {
        self.lock().ended.contains(topic)
    }

    pub fn any_ended(&self, is_meant: impl FnMut(&String) -> bool) -> bool {
        self.lock().ended.iter().any(is_meant)
    }

    /// How many topics are over.
    pub fn ended(&self) -> usize {
        self.lock().ended.len()
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenTopic<'_> {
    /// Up to where partitions of a topic are applied now.
    pub fn note(&mut self, topic: &str, applied: impl Iterator<Item = (i32, i64)>) {
        self.books.applied.entry(topic.to_owned()).or_default().extend(applied);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_topic_is_delivered_no_more_and_says_how_far_it_came() {
        let gate = TopicGate::default();
        gate.open("a").expect("it is open").note("a", [(0, 5), (1, 7)].into_iter());
        gate.open("a").expect("it is open").note("a", [(1, 9)].into_iter());
        gate.open("b").expect("it is open").note("b", [(0, 1)].into_iter());
        assert_eq!(gate.end("a"), Offsets::from([(0, 5), (1, 9)]));
        assert!(gate.open("a").is_none() && gate.open("b").is_some());
        assert!(gate.is_ended("a") && !gate.is_ended("b"));
        assert_eq!((gate.ended(), gate.end("c")), (1, Offsets::new()));
    }

    #[test]
    fn whoever_ends_a_topic_waits_for_its_delivery() {
        let gate = TopicGate::default();
        std::thread::scope(|scope| {
            let mut open = gate.open("a").expect("it is open");
            let ending = scope.spawn(|| gate.end("a"));
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!ending.is_finished());
            open.note("a", [(3, 4)].into_iter());
            drop(open);
            assert_eq!(ending.join().expect("no panic"), Offsets::from([(3, 4)]));
        });
    }
}
