//! `--kv-tier LEVEL=…`: where keys and values go that leave the device.

use std::path::PathBuf;
use std::str::FromStr;

use terrace_engine::{DiskLevel, KvTiers};

use crate::byte_size::ByteSize;

/// A level below the device's memory, and what it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvTier {
    Host(ByteSize),
    Disk(PathBuf, ByteSize),
    /// Nodes of a cluster, or one server.
    Redis(Vec<String>),
}

const SHAPE: &str = "give a level and what it may take: host=8GiB, disk=FOLDER,100GiB or \
                     redis=HOST:PORT (of a cluster, any of its nodes, more after commas); \
                     host=0 turns host memory off";

impl KvTier {
    /// Adds the level to an engine's configuration.
    pub fn set(&self, tiers: &mut KvTiers) {
        match self {
            KvTier::Host(size) => tiers.host_bytes = Some(size.0),
            KvTier::Disk(folder, size) => {
                tiers.disk = Some(DiskLevel { folder: folder.clone(), bytes: size.0 as u64 });
            }
            KvTier::Redis(nodes) => tiers.redis.clone_from(nodes),
        }
    }
}

impl FromStr for KvTier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("host", size)) => Ok(KvTier::Host(size.parse()?)),
            Some(("disk", level)) => match level.rsplit_once(',') {
                Some((folder, size)) if !folder.is_empty() => {
                    Ok(KvTier::Disk(folder.into(), size.parse()?))
                }
                _ => Err(format!("a disk has a folder and a size; {SHAPE}")),
            },
            Some(("redis", nodes)) => {
                let nodes: Vec<String> = nodes.split(',').map(|node| node.trim().into()).collect();
                match nodes.iter().any(String::is_empty) {
                    true => Err(format!("a node of Redis has no name; {SHAPE}")),
                    false => Ok(KvTier::Redis(nodes)),
                }
            }
            _ => Err(SHAPE.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_a_level_and_what_it_may_take() {
        assert_eq!("host=2GiB".parse(), Ok(KvTier::Host(ByteSize(2 << 30))));
        assert_eq!("host=0".parse(), Ok(KvTier::Host(ByteSize(0))));
        let folder = PathBuf::from("/var/cache/a,b");
        assert_eq!("disk=/var/cache/a,b,3MiB".parse(), Ok(KvTier::Disk(folder, ByteSize(3 << 20))));
        let nodes = vec!["one:7000".to_owned(), "two:7001".to_owned()];
        assert_eq!("redis=one:7000,two:7001".parse(), Ok(KvTier::Redis(nodes)));
        for wrong in
            ["host", "2GiB", "tape=2GiB", "host=many", "disk=/tmp", "disk=,2GiB", "redis=a:1,"]
        {
            let why = wrong.parse::<KvTier>().expect_err(wrong);
            assert!(why.contains("such as") || why.contains("host=8GiB"), "{wrong}: {why}");
        }
    }
}
