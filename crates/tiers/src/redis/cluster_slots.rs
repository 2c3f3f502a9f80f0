//! Which nodes have which slots of a cluster, as one of them said at some time.

use std::collections::BTreeSet;

use redis::{FromRedisValue, Value};

use crate::tier_error::TierError;

/// Where a node listens.
pub type Node = (String, u16);

pub struct ClusterSlots {
    ranges: Vec<SlotRange>,
    /// Each once, in order.
    primaries: Vec<Node>,
}

struct SlotRange {
    first: usize,
    last: usize,
    /// The primary, and then its replicas; at least one.
    nodes: Vec<Node>,
}

/// Of a cluster.
const SLOTS: usize = 16_384;

impl ClusterSlots {
    /// Reads the answer to `CLUSTER SLOTS`. Nodes that do not say their host are on `asked_host`.
    pub fn read(answer: Value, asked_host: &str) -> Result<Self, TierError> {
        let mut ranges = Vec::new();
        for range in read::<Vec<Vec<Value>>>(answer)? {
            let [first, last, nodes @ ..] = &range[..] else {
                return Err(unreadable("a range of CLUSTER SLOTS has no bounds"));
            };
            let [first, last]: [usize; 2] = [read(first.clone())?, read(last.clone())?];
            let nodes: Vec<Node> =
                nodes.iter().map(|node| read_node(node, asked_host)).collect::<Result<_, _>>()?;
            if nodes.is_empty() {
                return Err(unreadable("a range of CLUSTER SLOTS has no primary"));
            }
            ranges.push(SlotRange { first, last, nodes });
        }
        let primaries: BTreeSet<Node> =
            ranges.iter().map(|range: &SlotRange| range.nodes[0].clone()).collect();
        Ok(ClusterSlots { ranges, primaries: primaries.into_iter().collect() })
    }

    /// The primaries of all slots; an error where some are not served.
    pub fn all_primaries(&self) -> Result<&[Node], TierError> {
        let served: usize =
            self.ranges.iter().map(|range| (range.last + 1).saturating_sub(range.first)).sum();
        if served != SLOTS {
            return Err(TierError::Unavailable(format!(
                "redis: {served} of the cluster's {SLOTS} slots are served; bring its nodes back"
            )));
        }
        Ok(&self.primaries)
    }

    /// Primaries and replicas, each once.
    pub fn nodes(&self) -> BTreeSet<Node> {
        self.ranges.iter().flat_map(|range| &range.nodes).cloned().collect()
    }

    pub fn primary_count(&self) -> usize {
        self.primaries.len()
    }

    /// The primary of a slot, and its number among all of them.
    pub fn primary_of(&self, slot: u16) -> Option<(&Node, usize)> {
        let slot = usize::from(slot);
        let range = self.ranges.iter().find(|range| (range.first..=range.last).contains(&slot))?;
        let number = self.primaries.binary_search(&range.nodes[0]).ok()?;
        Some((&range.nodes[0], number))
    }
}

fn read_node(node: &Value, asked_host: &str) -> Result<Node, TierError> {
    let address: Vec<Value> = read(node.clone())?;
    let [host, port, ..] = &address[..] else {
        return Err(unreadable("a node has no address"));
    };
    let host: Option<String> = read(host.clone())?;
    let host = host.filter(|host| !host.is_empty()).unwrap_or_else(|| asked_host.to_owned());
    Ok((host, read(port.clone())?))
}

pub fn read<T: FromRedisValue>(value: Value) -> Result<T, TierError> {
    T::from_redis_value(value).map_err(|error| unreadable(&error.to_string()))
}

fn unreadable(what: &str) -> TierError {
    TierError::Protocol(format!("redis: an answer makes no sense: {what}; check its version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        Value::Array(vec![Value::BulkString(host.into()), Value::Int(port)])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
    }

    #[test]
    fn every_slot_has_its_primary_and_what_is_not_served_is_said() {
        let half = range(0, 8191, vec![node("a", 1), node("b", 2)]);
        let rest = range(8192, 16383, vec![node("", 3)]);
        let slots = ClusterSlots::read(Value::Array(vec![half.clone(), rest]), "asked").unwrap();
        assert_eq!(slots.primary_of(8191), Some((&("a".to_owned(), 1), 0)));
        assert_eq!(slots.primary_of(8192), Some((&("asked".to_owned(), 3), 1)));
        assert_eq!(slots.nodes().len(), 3);
        assert_eq!(slots.all_primaries().unwrap().len(), 2);
        let slots = ClusterSlots::read(Value::Array(vec![half]), "asked").unwrap();
        assert_eq!(slots.primary_of(9000), None);
        assert!(slots.all_primaries().unwrap_err().to_string().contains("8192 of the cluster's"));
    }

    #[test]
    fn answers_that_make_no_sense_are_refused() {
        let check = |answer: Value| {
            let error = ClusterSlots::read(answer, "asked").err().unwrap();
            assert!(matches!(error, TierError::Protocol(_)), "{error}");
        };
        check(Value::Int(1));
        check(Value::Array(vec![range(0, 16383, vec![])]));
        check(Value::Array(vec![range(0, 16383, vec![Value::Array(vec![])])]));
        check(Value::Array(vec![Value::Array(vec![Value::Int(1)])]));
    }
}
