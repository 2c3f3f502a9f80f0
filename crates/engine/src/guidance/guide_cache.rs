//! Guides of grammars that came before: clients send the same schema again and again.
//!
//! Grammars that are refused for what compiling them takes are remembered too, so that sending
//! one again costs nothing.

use std::collections::HashMap;
use std::sync::Arc;

use super::Guide;

const MAX_GRAMMARS: usize = 64;
/// Of guides and of the grammars themselves.
const MAX_BYTES: usize = 64 << 20;

/// What came of a grammar: a guide that nobody has used, or what is wrong with it.
pub(super) type Compiled = Result<Arc<Guide>, String>;

/// The longest unused grammar goes first.
#[derive(Default)]
pub(super) struct GuideCache {
    grammars: HashMap<String, Entry>,
    bytes: usize,
    /// Counts uses.
    clock: u64,
}

struct Entry {
    compiled: Compiled,
    bytes: usize,
    used: u64,
}

impl GuideCache {
    /// `grammar`: all of it, written out.
    pub fn get(&mut self, grammar: &str) -> Option<Compiled> {
        self.clock += 1;
        let entry = self.grammars.get_mut(grammar)?;
        entry.used = self.clock;
        Some(entry.compiled.clone())
    }

    pub fn insert(&mut self, grammar: String, compiled: Compiled) {
        self.clock += 1;
        let guide_bytes = compiled.as_ref().map_or(0, |guide| guide.bytes());
        let bytes = grammar.len() + guide_bytes;
        if MAX_BYTES < bytes {
            return;
        }
        let entry = Entry { compiled, bytes, used: self.clock };
        let before = self.grammars.insert(grammar, entry);
        self.bytes = self.bytes + bytes - before.map_or(0, |entry| entry.bytes);
        while MAX_GRAMMARS < self.grammars.len() || MAX_BYTES < self.bytes {
            self.remove_longest_unused();
        }
    }

    fn remove_longest_unused(&mut self) {
        let longest = self.grammars.iter().min_by_key(|(_, entry)| entry.used);
        let longest = longest.map(|(grammar, _)| grammar.clone()).expect("there are too many");
        let entry = self.grammars.remove(&longest).expect("it was just found");
        self.bytes -= entry.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_first() {
        let mut cache = GuideCache::default();
        let refused = |name: usize| Err(name.to_string());
        for name in 0..MAX_GRAMMARS {
            cache.insert(name.to_string(), refused(name));
        }
        assert!(cache.get("0").is_some());
        cache.insert("new".into(), refused(0));
        assert!(cache.get("0").is_some() && cache.get("1").is_none() && cache.get("2").is_some());
        assert_eq!(cache.grammars.len(), MAX_GRAMMARS);
    }

    #[test]
    fn bytes_are_counted() {
        let mut cache = GuideCache::default();
        let large = |name: char| name.to_string().repeat(MAX_BYTES / 2);
        for name in ['a', 'b', 'b', 'c'] {
            cache.insert(large(name), Err(String::new()));
        }
        assert!(cache.get(&large('a')).is_none() && cache.get(&large('c')).is_some());
        assert_eq!(cache.bytes, MAX_BYTES);
        cache.insert("d".repeat(MAX_BYTES + 1), Err(String::new()));
        assert_eq!(cache.grammars.len(), 2);
    }
}
