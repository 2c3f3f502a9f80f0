//! What an error of Redis or of its client means for a tier or a level.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::tier_error::TierError;

/// What to do about a server that lets nobody in, in the words of the configuration that names it.
#[derive(Clone, Copy, Debug)]
pub struct RedisAdvice {
    pub login: &'static str,
    pub certificate: &'static str,
}

/// `place` begins with "redis" and may name a node.
pub fn redis_fault(error: &RedisError, place: &str, advice: &RedisAdvice) -> TierError {
    let text = format!("{place}: {error}");
    let is_down = error.is_io_error()
        || error.is_cluster_error()
        || error.is_connection_refusal()
        || error.is_connection_dropped();
    match (error.kind(), error.code()) {
        (_, Some("OOM")) => TierError::Full(format!(
            "{text}; raise maxmemory, or let it evict with maxmemory-policy allkeys-lru"
        )),
        (_, Some("WRONGTYPE")) => TierError::Protocol(format!(
            "{text}; something else is stored under a name of ours, remove it or rename it"
        )),
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) | (_, Some("MISCONF")) => {
            TierError::ReadOnly(format!("{text}; name the masters, and check their disks"))
        }
        (ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm), _)
        | (_, Some("NOAUTH" | "WRONGPASS")) => {
            TierError::Unavailable(format!("{text}; {}", advice.login))
        }
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
        (ErrorKind::Io, _) if is_about_certificates(&text) => {
            TierError::Unavailable(format!("{text}; {}", advice.certificate))
        }
        _ if is_down => {
            TierError::Unavailable(format!("{text}; check that it runs and can be reached"))
        }
        _ => TierError::Protocol(format!("{text}; check that the nodes are Redis 6.2 or later")),
    }
}

/// The client hands on what TLS says as text only.
fn is_about_certificates(text: &str) -> bool {
    text.contains("certificate") || text.contains("fatal alert")
}
