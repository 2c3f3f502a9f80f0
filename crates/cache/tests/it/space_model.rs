//! What the prefix index should know, kept as plain lists of prefixes.

use std::collections::BTreeMap;

use terrace_cache::TokenId;

/// A full page's content: the kv group, the salt, and all tokens up to the page's end.
pub type Content = (usize, String, Vec<TokenId>);

#[derive(Default)]
pub struct SpaceModel {
    /// How many sequences hold each known page.
    users: BTreeMap<Content, usize>,
    /// Known pages that nobody holds, the first to be forgotten first.
    idle: Vec<Content>,
}

impl SpaceModel {
    pub fn knows(&self, content: &Content) -> bool {
        self.users.contains_key(content)
    }

    pub fn idle(&self) -> usize {
        self.idle.len()
    }

    pub fn hold(&mut self, content: Content) {
        self.idle.retain(|idle| *idle != content);
        *self.users.entry(content).or_insert(0) += 1;
    }

    pub fn release(&mut self, content: Content) {
        let users = self.users.get_mut(&content).expect("only what is known is released");
        *users -= 1;
        if *users == 0 {
            self.idle.push(content);
        }
    }

    /// Forgets the oldest; nothing may be forgotten before what builds on it.
    pub fn forget_oldest(&mut self, pages: usize) {
        for content in self.idle.drain(..pages) {
            self.users.remove(&content);
            let (group, salt, prefix) = &content;
            let builds_on_it = |(g, s, tokens): &Content| {
                g == group && s == salt && tokens.len() > prefix.len() && tokens.starts_with(prefix)
            };
            assert!(!self.users.keys().any(builds_on_it), "{content:?} was still needed");
        }
    }
}
