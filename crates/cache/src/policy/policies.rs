//! The policies that can be named.

use super::policy_args::PolicyArgs;
use super::policy_entry::{BuiltPolicy, PolicyEntry};
use super::{
    dense, h2o, h2o_orig, h2o_vlen, lastrec, qh2o, qh2o_vlen, smart_lastrec, streamingllm,
};

#[derive(Clone, Debug)]
pub struct Policies {
    entries: Vec<PolicyEntry>,
}

const BUILT_IN: [PolicyEntry; 9] = [
    dense::ENTRY,
    lastrec::ENTRY,
    smart_lastrec::ENTRY,
    h2o::ENTRY,
    h2o_vlen::ENTRY,
    qh2o::ENTRY,
    qh2o_vlen::ENTRY,
    h2o_orig::ENTRY,
    streamingllm::ENTRY,
];

impl Default for Policies {
    fn default() -> Self {
        Policies::built_in()
    }
}

impl Policies {
    pub fn built_in() -> Self {
        Policies { entries: BUILT_IN.to_vec() }
    }

    /// One more; of two with the same name the later counts.
    pub fn with(mut self, entry: PolicyEntry) -> Self {
        self.entries.push(entry);
        self
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.name)
    }

    pub fn build(&self, name: &str, args: PolicyArgs) -> Option<BuiltPolicy> {
        let entry = self.entries.iter().rev().find(|entry| entry.name == name)?;
        Some(entry.built(args))
    }
}
