//! What an error of Redis or of its client means for a tier.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::tier_error::TierError;

pub fn redis_fault(error: &RedisError) -> TierError {
    let text = format!("redis: {error}");
    let is_down = error.is_io_error()
        || error.is_cluster_error()
        || error.is_connection_refusal()
        || error.is_connection_dropped();
    match (error.kind(), error.code()) {
        (_, Some("OOM")) => TierError::Full(format!(
            "{text}; raise maxmemory, or let it evict with maxmemory-policy allkeys-lru"
        )),
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) | (_, Some("MISCONF")) => {
            TierError::ReadOnly(format!("{text}; name the masters, and check their disks"))
        }
        (ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm), _)
        | (_, Some("NOAUTH" | "WRONGPASS")) => TierError::Unavailable(format!(
            "{text}; name nodes as redis://user:password@host:port, of a user who may \
             GET, SET, EXISTS, UNLINK, INFO and CLUSTER SLOTS"
        )),
        _ if error.is_timeout() => TierError::TimedOut(format!("{text}; check network and load")),
        (
            ErrorKind::ClusterConnectionNotFound
            | ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::TryAgain,
            ),
            _,
        ) => TierError::Unavailable(format!("{text}; check the cluster's nodes")),
        _ if is_down => {
            TierError::Unavailable(format!("{text}; check that it runs and can be reached"))
        }
        _ => TierError::Protocol(format!("{text}; check that the nodes are Redis 6 or later")),
    }
}
