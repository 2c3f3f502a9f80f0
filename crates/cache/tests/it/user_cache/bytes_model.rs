//! Pages with bytes in them, so that a wrong page is seen: a slot holds what its token's keys and
//! values would depend on, the ids of the whole history up to it.

use std::collections::HashMap;

use terrace_cache::users::LowerPage;
use terrace_cache::{Direction, PageKey, PageMove};

pub struct Bytes {
    pub page_tokens: usize,
    pub device: Vec<u64>,
    pub host: Vec<u64>,
    /// Below the host.
    pub records: HashMap<PageKey, Vec<u64>>,
}

/// What a token's keys and values depend on.
pub fn value(user: u64, ids: &[i64], position: usize) -> u64 {
    ids[..=position].iter().fold(user, |sum, id| {
        sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(*id as u64 + 1)
    })
}

impl Bytes {
    pub fn new(page_tokens: usize, device_pages: usize, host_pages: usize) -> Self {
        Bytes {
            page_tokens,
            device: vec![u64::MAX; device_pages * page_tokens],
            host: vec![u64::MAX; host_pages * page_tokens],
            records: HashMap::new(),
        }
    }

    pub fn copy(&mut self, asked: &PageMove) {
        let tokens = self.page_tokens;
        for (page, stored) in &asked.pages {
            let (page, stored) = (page.index() * tokens, stored.index() * tokens);
            let device = &mut self.device[page..page + tokens];
            let host = &mut self.host[stored..stored + tokens];
            match asked.direction {
                Direction::SwapOut => host.copy_from_slice(device),
                Direction::SwapIn => device.copy_from_slice(host),
            }
        }
    }

    pub fn write(&mut self, page: &LowerPage) {
        let start = page.page.index() * self.page_tokens;
        let record = self.host[start..start + self.page_tokens].to_vec();
        if let Some(known) = self.records.insert(page.key, record.clone()) {
            assert_eq!(known, record, "a key's record never changes");
        }
    }

    /// Whether it was there.
    pub fn read(&mut self, page: &LowerPage) -> bool {
        let Some(record) = self.records.get(&page.key) else { return false };
        let start = page.page.index() * self.page_tokens;
        self.host[start..start + self.page_tokens].copy_from_slice(record);
        true
    }
}
