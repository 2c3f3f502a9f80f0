//! A policy's name, and how it is built from its arguments.

use std::sync::Arc;

use super::error::PolicyError;
use super::kv_policy::KvPolicy;
use super::policy_args::PolicyArgs;

#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// What a user writes before the buffer's name.
    pub name: &'static str,
    /// Asks for the arguments it takes, all of them whatever is given.
    pub build: fn(&mut PolicyArgs) -> BuiltPolicy,
}

pub(super) type BuiltPolicy = Result<Arc<dyn KvPolicy>, PolicyError>;

impl PolicyEntry {
    pub(super) fn built(&self, mut args: PolicyArgs) -> BuiltPolicy {
        let policy = (self.build)(&mut args)?;
        args.finish(self.name)?;
        Ok(policy)
    }
}
