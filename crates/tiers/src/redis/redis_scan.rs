//! Every key that begins so, of one server or of all primaries of a cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, FromRedisValue, RedisResult, Value};
use tokio::time::timeout;

use super::redis_fault::redis_fault;
use super::redis_link::RedisLink;
use crate::tier_error::TierError;

/// Keys that a server looks at before it answers: a moment of its time.
const LOOKED_AT: usize = 1000;

impl RedisLink {
    /// Each answer comes within `patience`.
    pub async fn scan(&self, pattern: &str, patience: Duration) -> Result<Vec<String>, TierError> {
        let mut link = self.clone();
        let answer = async |link: &mut RedisLink, node: Option<&Node>, command: &Cmd| {
            let answer = timeout(patience, link.run_at(node, command)).await;
            let answer = answer.map_err(|_| {
                let waited = patience.as_millis();
                TierError::TimedOut(format!("redis: no answer to a scan within {waited} ms"))
            })?;
            answer.map_err(|error| redis_fault(&error))
        };
        let mut keys = Vec::new();
        let nodes = match self {
            RedisLink::Single(_) => vec![None],
            RedisLink::Cluster(_) => {
                let mut slots = redis::cmd("CLUSTER");
                slots.arg("SLOTS");
                let slots = answer(&mut link, None, &slots).await?;
                primaries(slots)?.into_iter().map(Some).collect()
            }
        };
        for node in &nodes {
            let mut cursor = String::from("0");
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(LOOKED_AT);
                let found = answer(&mut link, node.as_ref(), &scan).await?;
                let (next, some): (String, Vec<String>) = read(found)?;
                keys.extend(some);
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(keys)
    }

    /// Runs a command on a node, or anywhere.
    async fn run_at(&mut self, node: Option<&Node>, command: &Cmd) -> RedisResult<Value> {
        match (self, node) {
            (RedisLink::Cluster(connection), Some(node)) => {
                run_on_node(connection, node, command).await
            }
            (RedisLink::Cluster(connection), None) => command.query_async(connection).await,
            (RedisLink::Single(connection), _) => command.query_async(connection).await,
        }
    }
}

/// Where a primary listens.
type Node = (String, u16);

/// An error where the node cannot be reached: no other can answer for it.
async fn run_on_node(
    connection: &mut ClusterConnection,
    (host, port): &Node,
    command: &Cmd,
) -> RedisResult<Value> {
    let node = SingleNodeRoutingInfo::ByAddress { host: host.clone(), port: *port };
    connection.route_command(command.clone(), RoutingInfo::SingleNode(node)).await
}

/// Of a cluster.
const SLOTS: usize = 16_384;

/// The primaries of all slots.
fn primaries(slots: Value) -> Result<Vec<Node>, TierError> {
    let (mut nodes, mut served) = (BTreeSet::new(), 0);
    for range in read::<Vec<Vec<Value>>>(slots)? {
        let [first, last, primary, ..] = &range[..] else {
            return Err(unreadable("a range of CLUSTER SLOTS has no primary"));
        };
        let [first, last]: [usize; 2] = [read(first.clone())?, read(last.clone())?];
        served += (last + 1).saturating_sub(first);
        let address: Vec<Value> = read(primary.clone())?;
        let [host, port, ..] = &address[..] else {
            return Err(unreadable("a primary has no address"));
        };
        nodes.insert((read(host.clone())?, read(port.clone())?));
    }
    if served != SLOTS {
        return Err(TierError::Unavailable(format!(
            "redis: {served} of the cluster's {SLOTS} slots are served; bring its nodes back"
        )));
    }
    Ok(nodes.into_iter().collect())
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, TierError> {
    T::from_redis_value(value).map_err(|error| unreadable(&error.to_string()))
}

fn unreadable(what: &str) -> TierError {
    TierError::Protocol(format!("redis: an answer makes no sense: {what}; check its version"))
}
