//! What a host does for users before a step can run: look-up, content check, pages, metadata.

use terrace_cache::users::{
    HistoryContent, HistoryKeys, HistorySeed, KvMetadata, MetadataUser, UserCache, UserCacheLimits,
    UserKey,
};

pub struct ControlPath {
    cache: UserCache,
    seed: HistorySeed,
    page_tokens: usize,
    users: Vec<(UserKey, Vec<i64>)>,
}

impl ControlPath {
    /// A cache in which the first tokens of all users are.
    pub fn new(
        seed: &HistorySeed,
        page_tokens: usize,
        requests: &[terrace_engine::rank::RankRequest],
        cached: usize,
    ) -> Self {
        let pages = requests.iter().map(|it| it.items.len().div_ceil(page_tokens)).sum();
        let limits = UserCacheLimits {
            page_tokens,
            device_pages: pages,
            host_pages: 0,
            has_lower_tiers: false,
            lower_tokens: 0,
        };
        let users = requests.iter().map(|it| (it.user.clone(), it.items.clone())).collect();
        let mut path =
            ControlPath { cache: UserCache::new(limits), seed: seed.clone(), page_tokens, users };
        for index in 0..path.users.len() {
            let (user, ids) = path.users[index].clone();
            let ids = &ids[..cached];
            let keys = HistoryKeys::new(path.seed.root(&user), page_tokens, ids);
            let content = HistoryContent { keys: &keys, ids };
            let (slot, _) = path.cache.enter(&user, content).expect("nobody runs");
            path.cache.allocate(slot, ids.len()).expect("there is room for all");
            path.cache.leave(slot, content, ids.len());
        }
        path
    }

    /// Once: the users stay with the requests that have entered.
    pub fn run(&mut self) {
        let mut entered = Vec::with_capacity(self.users.len());
        for (user, ids) in &self.users {
            let keys = self.cache.keys(user, self.seed.root(user), ids);
            let content = HistoryContent { keys: &keys, ids };
            let (slot, _) = self.cache.enter(user, content).expect("nobody runs");
            let prepared = self.cache.allocate(slot, ids.len()).expect("there is room for all");
            entered.push(prepared);
        }
        let metadata: Vec<MetadataUser<'_>> = entered
            .iter()
            .zip(&self.users)
            .map(|(prepared, (_, ids))| MetadataUser {
                pages: &prepared.table,
                cached: prepared.cached,
                total: ids.len(),
            })
            .collect();
        std::hint::black_box(KvMetadata::of(self.page_tokens, &metadata));
    }
}
