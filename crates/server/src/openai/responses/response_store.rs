//! Responses that can be retrieved and continued: in memory, within bounds.
//!
//! A stored response has all items of its conversation, so the response before it may be forgotten.
//! Bounds are on the number of responses and on their bytes; the oldest goes first. Whoever came
//! with another key does not see that a response exists.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::middleware::Caller;
use crate::openai::responses::item::Item;

const MAX_RESPONSES: usize = 1_000;
const MAX_BYTES: usize = 64 << 20;

/// What is said to who asks for something that is not there.
pub const FORGETS: &str = "the server keeps the newest 1,000 responses, up to 64 MiB of them, \
                           until it stops";

pub struct ResponseStore {
    max_responses: usize,
    max_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    responses: HashMap<String, Arc<StoredResponse>>,
    oldest_first: VecDeque<String>,
    /// Where each caller's items are: in which response, at which index.
    items: HashMap<(Caller, String), (String, usize)>,
    bytes: usize,
}

#[derive(Debug, PartialEq)]
pub struct StoredResponse {
    pub caller: Caller,
    /// The response as it was sent.
    pub json: String,
    /// The conversation: input, then output.
    pub items: Vec<Item>,
    /// How many of the items are input.
    pub input: usize,
    /// How many of the items came from the response before.
    pub carried: usize,
}

/// The response alone has more bytes than all may have together.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge {
    pub bytes: usize,
    pub limit: usize,
}

impl StoredResponse {
    fn bytes(&self) -> usize {
        self.json.len() + self.items.iter().map(Item::bytes).sum::<usize>()
    }

    /// The items that are new in this response, with their indices.
    fn own_items(&self) -> impl Iterator<Item = (usize, &Item)> {
        self.items.iter().enumerate().skip(self.carried)
    }
}

impl Default for ResponseStore {
    fn default() -> Self {
        Self::new(MAX_RESPONSES, MAX_BYTES)
    }
}

impl ResponseStore {
    fn new(max_responses: usize, max_bytes: usize) -> Self {
        Self { max_responses, max_bytes, kept: Mutex::default() }
    }

    /// Keeps the response under an id that no other has; the oldest are dropped for it.
    pub fn insert(&self, id: String, response: StoredResponse) -> Result<(), TooLarge> {
        let bytes = response.bytes();
        if self.max_bytes < bytes {
            return Err(TooLarge { bytes, limit: self.max_bytes });
        }
        let mut kept = self.kept();
        while kept.responses.len() >= self.max_responses || self.max_bytes < kept.bytes + bytes {
            let oldest = kept.oldest_first.front().expect("what is full is not empty").clone();
            kept.remove(&oldest);
        }
        for (index, item) in response.own_items() {
            let key = (response.caller, item.id().to_owned());
            kept.items.insert(key, (id.clone(), index));
        }
        kept.bytes += bytes;
        kept.oldest_first.push_back(id.clone());
        kept.responses.insert(id, Arc::new(response));
        Ok(())
    }

    pub fn get(&self, caller: Caller, id: &str) -> Option<Arc<StoredResponse>> {
        self.kept().responses.get(id).filter(|found| found.caller == caller).cloned()
    }

    /// The item that one of the caller's responses brought.
    pub fn item(&self, caller: Caller, id: &str) -> Option<Item> {
        let kept = self.kept();
        let (response, index) = kept.items.get(&(caller, id.to_owned()))?;
        kept.responses.get(response)?.items.get(*index).cloned()
    }

    /// Whether there was one to forget.
    pub fn remove(&self, caller: Caller, id: &str) -> bool {
        let mut kept = self.kept();
        let is_there = kept.responses.get(id).is_some_and(|found| found.caller == caller);
        if is_there {
            kept.remove(id);
        }
        is_there
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no panics while it is held")
    }
}

impl Kept {
    fn remove(&mut self, id: &str) {
        self.oldest_first.retain(|other| other != id);
        let Some(response) = self.responses.remove(id) else { return };
        self.bytes -= response.bytes();
        for (_, item) in response.own_items() {
            let key = (response.caller, item.id().to_owned());
            // A client may have sent the item again; then it is found in the later response.
            if self.items.get(&key).is_some_and(|(holder, _)| holder == id) {
                self.items.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNE: Caller = Caller(Some(0));
    const BERT: Caller = Caller(Some(1));

    fn response(caller: Caller, item: &str, bytes: usize) -> StoredResponse {
        let items = vec![Item::user(item.to_owned(), String::new())];
        let rest: usize = items.iter().map(Item::bytes).sum();
        let json = "x".repeat(bytes - rest);
        StoredResponse { caller, json, items, input: 1, carried: 0 }
    }

    fn insert(store: &ResponseStore, id: &str, bytes: usize) {
        store.insert(id.to_owned(), response(ANNE, &format!("msg_{id}"), bytes)).expect("it fits");
    }

    #[track_caller]
    fn check_kept(store: &ResponseStore, want: &[&str]) {
        let kept = store.kept();
        assert_eq!(kept.oldest_first, want);
        assert_eq!((kept.responses.len(), kept.items.len()), (want.len(), want.len()));
        let bytes: usize = kept.responses.values().map(|response| response.bytes()).sum();
        assert_eq!(kept.bytes, bytes);
        assert!(bytes <= store.max_bytes);
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let store = ResponseStore::new(2, 1 << 20);
        for id in ["a", "b", "c"] {
            insert(&store, id, 1_000);
        }
        check_kept(&store, &["b", "c"]);
        assert_eq!(store.get(ANNE, "a"), None);
        assert_eq!(store.item(ANNE, "msg_a"), None);
        assert!(store.item(ANNE, "msg_c").is_some());
    }

    #[test]
    fn the_oldest_go_when_they_have_too_many_bytes() {
        let store = ResponseStore::new(100, 10_000);
        for (id, bytes) in [("a", 3_000), ("b", 3_000), ("c", 4_000)] {
            insert(&store, id, bytes);
        }
        check_kept(&store, &["a", "b", "c"]);
        insert(&store, "d", 4_000);
        check_kept(&store, &["c", "d"]);
        let large = store.insert("e".to_owned(), response(ANNE, "msg_e", 10_001));
        assert_eq!(large, Err(TooLarge { bytes: 10_001, limit: 10_000 }));
        check_kept(&store, &["c", "d"]);
    }

    #[test]
    fn a_response_is_its_callers_alone() {
        let store = ResponseStore::default();
        insert(&store, "a", 1_000);
        assert!(store.get(ANNE, "a").is_some() && store.item(ANNE, "msg_a").is_some());
        assert!(store.get(BERT, "a").is_none() && store.item(BERT, "msg_a").is_none());
        assert!(!store.remove(BERT, "a"));
        // An item of the same name hides nobody else's.
        store.insert("b".to_owned(), response(BERT, "msg_a", 1_000)).expect("it fits");
        assert!(store.item(ANNE, "msg_a").is_some());
        assert!(store.remove(ANNE, "a"));
        assert!(store.item(ANNE, "msg_a").is_none() && store.item(BERT, "msg_a").is_some());
    }

    #[test]
    fn an_item_that_was_sent_again_is_found_in_the_later_response() {
        let store = ResponseStore::default();
        for id in ["a", "b"] {
            store.insert(id.to_owned(), response(ANNE, "msg_1", 1_000)).expect("it fits");
        }
        assert!(store.remove(ANNE, "a"));
        assert!(store.item(ANNE, "msg_1").is_some());
        assert!(store.remove(ANNE, "b"));
        assert!(!store.remove(ANNE, "b"));
        check_kept(&store, &[]);
    }

    #[test]
    fn what_is_said_about_the_bounds_is_so() {
        assert!(FORGETS.contains("1,000") && FORGETS.contains("64 MiB"));
        assert_eq!((MAX_RESPONSES, MAX_BYTES), (1_000, 64 << 20));
    }
}
