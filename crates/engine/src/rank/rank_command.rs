//! What an engine's thread is asked.

use terrace_cache::users::{CachedSpan, UserKey};
use tokio::sync::oneshot;

use super::rank_engine::RankStats;
use super::rank_error::RankError;
use super::rank_job::RankJob;
use super::rank_output::RankOutput;
use super::reloaded::Reloaded;
use super::removals::{Removal, Removed};
use super::replacement::Replacement;
use crate::error::Error;

pub(super) type ReloadReply = oneshot::Sender<Result<Reloaded, Error>>;

/// What is cached of a user.
pub type UserCacheInfo = (UserKey, CachedSpan);

pub(super) enum Command {
    Rank(Box<RankJob>, oneshot::Sender<Result<RankOutput, RankError>>),
    Stats(oneshot::Sender<RankStats>),
    Span(UserKey, oneshot::Sender<CachedSpan>),
    Ids(UserKey, oneshot::Sender<Vec<i64>>),
    Users {
        tenant: String,
        most: usize,
        reply: oneshot::Sender<Vec<UserCacheInfo>>,
    },
    Offload(UserKey, oneshot::Sender<Result<usize, RankError>>),
    Remove(Removal, oneshot::Sender<Removed>),
    Flush(oneshot::Sender<()>),
    Replace(Box<Replacement>, ReloadReply),
    /// A lower tier has done something.
    Wake,
}
