//! One topic that a consumer reads, for as long as somebody who is served with it has this.

use std::sync::Arc;

use super::fed_table::FedTable;
use super::update_feeds::UpdateFeeds;
use crate::feed::ConsumerWatch;

/// Ends the topic when it is dropped: then nothing of it is being applied any more.
pub struct TopicFeed {
    topic: String,
    feeds: Arc<UpdateFeeds>,
    watch: ConsumerWatch,
    /// `None` where it brings dense weights.
    fed: Option<Arc<FedTable>>,
}

impl TopicFeed {
    /// Of a consumer that was started with it.
    pub fn new(feeds: &Arc<UpdateFeeds>, topic: String, fed: Option<Arc<FedTable>>) -> Self {
        let watch = feeds.watch_own();
        if let Some(fed) = &fed {
            fed.begin_topic(&topic, &watch);
        }
        TopicFeed { topic, feeds: Arc::clone(feeds), watch, fed }
    }

    pub fn feeds(&self) -> &Arc<UpdateFeeds> {
        &self.feeds
    }
}

impl Drop for TopicFeed {
    fn drop(&mut self) {
        let applied = self.feeds.end_topic(&self.topic);
        if let Some(fed) = &self.fed {
            fed.end_topic(&self.topic, &self.watch, applied);
        }
    }
}
