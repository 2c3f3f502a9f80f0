//! Every key that begins so, of one server or of all primaries of a cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
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
        let answer = async |link: &mut RedisLink, route: Option<u16>, command: &Cmd| {
            let answer = timeout(patience, link.run_at(route, command)).await;
            let answer = answer.map_err(|_| {
                let waited = patience.as_millis();
                TierError::TimedOut(format!("redis: no answer to a scan within {waited} ms"))
            })?;
            answer.map_err(|error| redis_fault(&error))
        };
        let mut keys = Vec::new();
        let routes = match self {
            RedisLink::Single(_) => vec![None],
            RedisLink::Cluster(_) => {
                let mut slots = redis::cmd("CLUSTER");
                slots.arg("SLOTS");
                let slots = answer(&mut link, None, &slots).await?;
                primaries(slots)?.into_iter().map(Some).collect()
            }
        };
        for route in routes {
            let mut cursor = String::from("0");
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(LOOKED_AT);
                let found = answer(&mut link, route, &scan).await?;
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

    /// Runs a command where a slot is, or anywhere.
    async fn run_at(&mut self, slot: Option<u16>, command: &Cmd) -> RedisResult<Value> {
        match (self, slot) {
            (RedisLink::Cluster(connection), Some(slot)) => {
                run_where_slot_is(connection, slot, command).await
            }
            (RedisLink::Cluster(connection), None) => command.query_async(connection).await,
            (RedisLink::Single(connection), _) => command.query_async(connection).await,
        }
    }
}

async fn run_where_slot_is(
    connection: &mut ClusterConnection,
    slot: u16,
    command: &Cmd,
) -> RedisResult<Value> {
    let route = SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master));
    connection.route_command(command.clone(), RoutingInfo::SingleNode(route)).await
}

/// One slot of each primary.
fn primaries(slots: Value) -> Result<Vec<u16>, TierError> {
    let mut by_node = BTreeMap::new();
    for range in read::<Vec<Vec<Value>>>(slots)? {
        let [first, _, primary, ..] = &range[..] else {
            return Err(unreadable("a range of CLUSTER SLOTS has no primary"));
        };
        let first: u16 = read(first.clone())?;
        let address: Vec<Value> = read(primary.clone())?;
        by_node.entry(format!("{address:?}")).or_insert(first);
    }
    if by_node.is_empty() {
        return Err(unreadable("CLUSTER SLOTS names no primary"));
    }
    Ok(by_node.into_values().collect())
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, TierError> {
    T::from_redis_value(value).map_err(|error| unreadable(&error.to_string()))
}

fn unreadable(what: &str) -> TierError {
    TierError::Protocol(format!("redis: an answer makes no sense: {what}; check its version"))
}
