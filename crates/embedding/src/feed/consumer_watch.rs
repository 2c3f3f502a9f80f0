//! What a consumer has done, for those who look on and must not keep it from ending.

use std::sync::Arc;

use super::consumer_books::ConsumerBooks;
use super::consumer_counters::ConsumerCounters;

#[derive(Clone)]
pub struct ConsumerWatch {
    books: Arc<ConsumerBooks>,
}

impl ConsumerWatch {
    pub fn new(books: &Arc<ConsumerBooks>) -> Self {
        ConsumerWatch { books: Arc::clone(books) }
    }

    /// Without whether its thread lives.
    pub fn counters(&self) -> ConsumerCounters {
        self.books.counters()
    }

    pub fn is_of(&self, other: &ConsumerWatch) -> bool {
        Arc::ptr_eq(&self.books, &other.books)
    }
}
