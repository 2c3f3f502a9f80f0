//! Whose request it is, as far as its key says.

use sha2::{Digest, Sha256};

/// Which of the server's keys a request came with; `None` where the server has none. What one
/// caller stores here, another does not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller(pub Option<usize>);

/// In front of a key before it is hashed, so that the hash is of use nowhere else.
const OWNER: &[u8] = b"terrace owner\0";
/// Of the hash; 128 bits are enough to tell keys apart.
const OWNER_BYTES: usize = 16;

impl Caller {
    /// Whose it is what the caller leaves on a disk: a hash of its key, which stays the same when
    /// the server's list of keys changes.
    pub fn owner(self, keys: &[String]) -> Option<String> {
        let key = keys.get(self.0?)?;
        let hash = Sha256::new().chain_update(OWNER).chain_update(key.as_bytes()).finalize();
        Some(hash[..OWNER_BYTES].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_its_key_wherever_it_stands() {
        let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        let owner = Caller(Some(1)).owner(&keys(&["a", "b"]));
        assert_eq!(owner, Caller(Some(0)).owner(&keys(&["b"])));
        assert_ne!(owner, Caller(Some(0)).owner(&keys(&["a", "b"])));
        assert_eq!(owner.map(|owner| owner.len()), Some(32));
        assert_eq!(Caller(None).owner(&keys(&["a"])), None);
    }
}
