//! Every key that begins so, of one server or of all primaries of a cluster.

use std::time::Duration;

use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, RedisResult, Value};
use tokio::time::timeout;

use super::cluster_slots::{ClusterSlots, Node, read};
use super::redis_fault::{RedisAdvice, redis_fault};
use super::redis_link::{RedisLink, Wire};
use crate::tier_error::TierError;

/// Keys that a server looks at before it answers: a moment of its time.
const LOOKED_AT: usize = 1000;

impl RedisLink {
    /// Each answer comes within `patience`.
    pub(super) async fn scan(
        &self,
        pattern: &str,
        patience: Duration,
        advice: &RedisAdvice,
    ) -> Result<Vec<String>, TierError> {
        let answer = async |node: Option<&Node>, command: &Cmd| {
            let answer = timeout(patience, self.run_on(node, command)).await;
            let answer = answer.map_err(|_| {
                let waited = patience.as_millis();
                TierError::TimedOut(format!("redis: no answer to a scan within {waited} ms"))
            })?;
            answer.map_err(|error| redis_fault(&error, "redis", advice))
        };
        let mut keys = Vec::new();
        let nodes = match self.wire {
            Wire::Single(_) => vec![None],
            Wire::Cluster(_) => {
                let mut slots = redis::cmd("CLUSTER");
                slots.arg("SLOTS");
                let slots = ClusterSlots::read(answer(None, &slots).await?, &self.asked.0)?;
                slots.all_primaries()?.iter().cloned().map(Some).collect()
            }
        };
        for node in &nodes {
            let mut cursor = String::from("0");
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(LOOKED_AT);
                let found = answer(node.as_ref(), &scan).await?;
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

    /// Runs a command on a node, or anywhere. An error where the node cannot be reached: no other
    /// can answer for it.
    async fn run_on(&self, node: Option<&Node>, command: &Cmd) -> RedisResult<Value> {
        match (&self.wire, node) {
            (Wire::Cluster(clients), Some((host, port))) => {
                let node = SingleNodeRoutingInfo::ByAddress { host: host.clone(), port: *port };
                clients[0]
                    .clone()
                    .route_command(command.clone(), RoutingInfo::SingleNode(node))
                    .await
            }
            _ => self.run(command).await,
        }
    }
}
