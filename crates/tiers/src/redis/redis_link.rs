//! The way to the servers: a cluster's client that knows which node has which key, or a connection
//! to the one server. Each multiplexes: commands that are under way at once are pipelined, node by
//! node, and those for different nodes run in parallel.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, IntoConnectionInfo, RedisResult, Value,
};

use super::redis_fault::redis_fault;
use crate::tier_error::TierError;

/// A slot may have moved, and then the next node have become busy.
const RETRIES: u32 = 2;
const LONGEST_RETRY_WAIT_MS: u64 = 50;

#[derive(Clone)]
pub enum RedisLink {
    Cluster(ClusterConnection),
    Single(MultiplexedConnection),
}

impl RedisLink {
    /// Whoever of `nodes` answers first says whether they are a cluster.
    pub async fn connect(nodes: &[ConnectionInfo], timeout: Duration) -> Result<Self, TierError> {
        // Half of the time, so that a node that hangs does not use up the time of the others.
        let connecting = timeout / 2;
        let attempts = nodes.iter().map(|node| ask(node, connecting).boxed());
        let (answer, _) = select_ok(attempts).await.map_err(|error| redis_fault(&error))?;
        let (single, is_cluster) = answer;
        if !is_cluster {
            return match nodes.len() {
                1 => Ok(RedisLink::Single(single)),
                count => Err(TierError::Protocol(format!(
                    "redis: {count} nodes are named, and they are not a cluster; name one, or \
                     start them with cluster-enabled yes"
                ))),
            };
        }
        let client = ClusterClient::builder(nodes.iter().cloned())
            .connection_timeout(connecting)
            // Whoever waits has a time limit of their own.
            .response_timeout(4 * timeout)
            .retries(RETRIES)
            .max_retry_wait(LONGEST_RETRY_WAIT_MS)
            .build();
        let client = client.map_err(|error| redis_fault(&error))?;
        let connection = client.get_async_connection().await;
        connection.map(RedisLink::Cluster).map_err(|error| redis_fault(&error))
    }

    /// What is under a key and is not a string is nothing of ours.
    pub async fn run(&mut self, command: &Cmd) -> RedisResult<Value> {
        let answer = match self {
            RedisLink::Cluster(connection) => command.query_async(connection).await,
            RedisLink::Single(connection) => command.query_async(connection).await,
        };
        match answer {
            Err(error) if error.code() == Some("WRONGTYPE") => Ok(Value::Nil),
            answer => answer,
        }
    }
}

/// `host:port` or `redis://user:password@host:port`.
pub fn parse_node(node: &str) -> Result<ConnectionInfo, TierError> {
    let form = "write host:port, or redis://user:password@host:port";
    if node.starts_with("rediss://") {
        return Err(TierError::Unavailable(format!(
            "redis over TLS (rediss://) is not supported; use a private network or a tunnel, and \
             {form}"
        )));
    }
    let url = if node.contains("://") { node.to_owned() } else { format!("redis://{node}") };
    // The text of a node may hold a password, so it is not repeated.
    url.into_connection_info().map_err(|error| {
        TierError::Unavailable(format!("redis: a node cannot be read ({error}); {form}"))
    })
}

/// A connection, and whether the server is a node of a cluster.
async fn ask(
    node: &ConnectionInfo,
    timeout: Duration,
) -> RedisResult<(MultiplexedConnection, bool)> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(None);
    let client = Client::open(node.clone())?;
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let info: String = redis::cmd("INFO").arg("cluster").query_async(&mut connection).await?;
    Ok((connection, info.contains("cluster_enabled:1")))
}
