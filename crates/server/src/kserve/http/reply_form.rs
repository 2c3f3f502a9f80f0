//! Which outputs of a response are bytes behind its JSON.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyForm {
    /// Of outputs that the request has said nothing about.
    is_binary: bool,
    by_output: BTreeMap<String, bool>,
}

impl ReplyForm {
    pub fn new(is_binary: bool) -> Self {
        Self { is_binary, by_output: BTreeMap::new() }
    }

    pub fn set(&mut self, output: &str, is_binary: bool) {
        self.by_output.insert(output.to_owned(), is_binary);
    }

    pub fn is_binary(&self, output: &str) -> bool {
        self.by_output.get(output).copied().unwrap_or(self.is_binary)
    }
}
