//! Token ids of a text as they are found, up to a limit.

use crate::error::Error;

pub struct Ids {
    ids: Vec<u32>,
    limit: usize,
}

impl Ids {
    pub fn new(limit: usize) -> Self {
        Ids { ids: Vec::new(), limit }
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Fails at the first id too many.
    pub fn extend(&mut self, ids: impl Iterator<Item = u32>) -> Result<(), Error> {
        for id in ids {
            if self.ids.len() == self.limit {
                return Err(Error::TooManyTokens { least: self.limit + 1, limit: self.limit });
            }
            self.ids.push(id);
        }
        Ok(())
    }

    pub fn truncate(&mut self, len: usize) {
        self.ids.truncate(len);
    }

    pub fn into_vec(self) -> Vec<u32> {
        self.ids
    }
}
