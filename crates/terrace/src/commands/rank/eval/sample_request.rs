//! A user's sample as a request.

use terrace_datasets::read::Sample;
use terrace_engine::rank::{RankRequest, UserKey};

/// Ids that a table has not got are taken as its default row.
pub fn request(sample: Sample) -> RankRequest {
    let Sample { user, context, items, actions, candidates, labels: _ } = sample;
    RankRequest {
        user: UserKey::new("", &user.to_string()),
        context,
        items,
        actions,
        candidates,
        start: None,
        priority: 0,
        strict: false,
        timeout_ms: None,
    }
}
