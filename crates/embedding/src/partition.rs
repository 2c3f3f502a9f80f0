//! Which partition of a table a key is in.
//!
//! Partitions are seen from outside: Redis has one hash each, and the producers of updates group
//! keys by them. So the rule is the one by which the rows of a cluster were written, and it does
//! not change.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionRule {
    /// The key's bits are mixed first: keys that share their last bits spread too.
    Mix,
    /// The key's last bits decide, as in releases up to 3.3.
    Modulo,
}

impl PartitionRule {
    /// Of `partitions`, which is not 0. Negative keys count as the `u64` of the same bits.
    pub fn partition(self, key: i64, partitions: u32) -> u32 {
        assert!(partitions > 0, "a table without partitions");
        let key = key as u64;
        let spread = match self {
            PartitionRule::Mix => mix(key),
            PartitionRule::Modulo => key,
        };
        (spread % u64::from(partitions)) as u32
    }
}

/// Evensen's `rrxmrrxmsx_0`.
pub(crate) fn mix(key: u64) -> u64 {
    let key = key ^ key.rotate_right(25) ^ key.rotate_right(50);
    let key = key.wrapping_mul(0xA24B_AED4_963E_E407);
    let key = key ^ key.rotate_right(24) ^ key.rotate_right(49);
    let key = key.wrapping_mul(0x9FB2_1C65_1E98_DF25);
    key ^ (key >> 28)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;
    use terrace_testkit::golden_set;

    use super::*;

    fn vectors() -> Value {
        let path = golden_set("ctr").join("hps_vectors.json");
        let text = std::fs::read(&path)
            .unwrap_or_else(|error| panic!("golden data {}: {error}", path.display()));
        serde_json::from_slice(&text).unwrap()
    }

    fn keys(value: &Value) -> Vec<i64> {
        let keys: Vec<String> = serde_json::from_value(value.clone()).unwrap();
        keys.iter().map(|key| key.parse().unwrap()).collect()
    }

    fn check(rule: PartitionRule, keys: &[i64], wanted: &Value) {
        let wanted: BTreeMap<String, Vec<u32>> = serde_json::from_value(wanted.clone()).unwrap();
        assert!(!wanted.is_empty());
        for (partitions, wanted) in wanted {
            let partitions = partitions.parse().unwrap();
            let found: Vec<u32> = keys.iter().map(|&key| rule.partition(key, partitions)).collect();
            assert_eq!(found, wanted, "{rule:?} of {partitions}");
        }
    }

    #[test]
    fn keys_are_where_the_reference_puts_them() {
        let vectors = vectors();
        check(PartitionRule::Mix, &keys(&vectors["keys"]), &vectors["partition_by_mix"]);
        check(PartitionRule::Modulo, &keys(&vectors["keys"]), &vectors["partition_v33"]);
        let negative = keys(&vectors["negative_keys"]);
        check(PartitionRule::Mix, &negative, &vectors["negative_partition_by_mix"]);
    }

    #[test]
    fn bits_are_mixed_as_in_the_reference() {
        let vectors = vectors();
        let mixed: Vec<String> = serde_json::from_value(vectors["mix"].clone()).unwrap();
        for (key, mixed) in keys(&vectors["keys"]).into_iter().zip(mixed) {
            assert_eq!(mix(key as u64), mixed.parse::<u64>().unwrap(), "{key}");
        }
    }

    proptest! {
        #[test]
        fn a_partition_is_always_one_of_them(key in any::<i64>(), partitions in 1..u32::MAX) {
            for rule in [PartitionRule::Mix, PartitionRule::Modulo] {
                prop_assert!(rule.partition(key, partitions) < partitions);
                prop_assert_eq!(rule.partition(key, 1), 0);
            }
        }
    }
}
