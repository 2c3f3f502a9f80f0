//! `--kv-tier LEVEL=SIZE`: memory for keys and values that leave the device.

use std::str::FromStr;

use crate::byte_size::ByteSize;

/// A level below the device's memory, and what it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvTier {
    Host(ByteSize),
}

impl FromStr for KvTier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("host", size)) => Ok(KvTier::Host(size.parse()?)),
            _ => Err("give a level and its size, such as host=4GiB; host=0 turns it off".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_a_level_and_a_size() {
        assert_eq!("host=2GiB".parse(), Ok(KvTier::Host(ByteSize(2 << 30))));
        assert_eq!("host=0".parse(), Ok(KvTier::Host(ByteSize(0))));
        for wrong in ["host", "2GiB", "tape=2GiB", "host=many"] {
            assert!(wrong.parse::<KvTier>().is_err_and(|why| why.contains("such as")), "{wrong}");
        }
    }
}
