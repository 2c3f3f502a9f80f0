//! The handles of one engine, for any thread.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use terrace_cache::TokenId;
use terrace_tiers::HandleId;

use super::{HandleLabels, HandlePrompt, HandleSummary};
use crate::error::Error;
use crate::generate::request::RequestId;

/// Clones reach the same handles.
#[derive(Clone, Default)]
pub struct KvHandles {
    inner: Arc<()>,
}

impl KvHandles {
    /// Computes a prompt and keeps its keys and values; returns when they are durable, where there
    /// is a disk level.
    pub async fn create_from_tokens(
        &self,
        _prompt: HandlePrompt,
        _labels: HandleLabels,
    ) -> Result<HandleSummary, Error> {
        Err(Error::Stopped)
    }

    /// The same of a request with one output that has finished lately, its output included.
    pub async fn create_from_request(
        &self,
        _finished: RequestId,
        _labels: HandleLabels,
    ) -> Result<HandleSummary, Error> {
        Err(Error::Stopped)
    }

    /// Those of an owner, the oldest first.
    pub fn list(&self, _owner: Option<&str>) -> Vec<HandleSummary> {
        Vec::new()
    }

    /// By id, or else by name; another owner's is unknown.
    pub fn get(&self, name_or_id: &str, _owner: Option<&str>) -> Result<HandleSummary, Error> {
        Err(Error::NoSuchHandle { handle: name_or_id.into() })
    }

    /// All tokens of a handle. May read them from the disk, and then blocks for milliseconds.
    pub fn tokens(&self, id: HandleId) -> Result<Arc<[TokenId]>, Error> {
        Err(Error::NoSuchHandle { handle: id.to_string() })
    }

    /// Loads a handle and keeps it in memory, within the budget of pins; or lets that go.
    pub async fn set_pinned(&self, id: HandleId, _is_pinned: bool) -> Result<HandleSummary, Error> {
        Err(Error::NoSuchHandle { handle: id.to_string() })
    }

    /// From now on; `None` keeps it until it is removed.
    pub async fn set_ttl(
        &self,
        id: HandleId,
        _ttl: Option<Duration>,
    ) -> Result<HandleSummary, Error> {
        Err(Error::NoSuchHandle { handle: id.to_string() })
    }

    /// A name that another handle of the owner has is refused.
    pub async fn rename(&self, id: HandleId, _name: &str) -> Result<HandleSummary, Error> {
        Err(Error::NoSuchHandle { handle: id.to_string() })
    }

    /// Requests that go on from it finish.
    pub async fn remove(&self, id: HandleId) -> Result<(), Error> {
        Err(Error::NoSuchHandle { handle: id.to_string() })
    }

    /// Writes a handle as a file, without its owner; its bytes. Blocks.
    pub fn export(&self, id: HandleId, _sink: impl Write) -> Result<u64, Error> {
        Err(Error::NoSuchHandle { handle: id.to_string() })
    }

    /// Stores a handle that came as a file, under a new id; without `name` it keeps its own. One
    /// that requests could never go on from here is refused with what differs. Blocks.
    pub fn import(
        &self,
        _source: impl Read,
        _owner: Option<&str>,
        _name: Option<&str>,
    ) -> Result<HandleSummary, Error> {
        let _ = &self.inner;
        Err(Error::Stopped)
    }
}
