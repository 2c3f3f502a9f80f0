//! What brings updates to the tables of one set, and dense weights to its models.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fed_table::GroupEnds;
use super::topic_feed::TopicFeed;
use super::update_feeds::{FedDense, FedTopic, FeedSource, UpdateFeeds};
use crate::feed::FeedError;

#[derive(Default)]
pub struct SetFeeds {
    pub all: Vec<Arc<TopicFeed>>,
    /// Those that are new, with their table's place in the set and their topic.
    pub new: Vec<(usize, String, Arc<TopicFeed>)>,
}

/// A topic of one of the set's models.
pub struct WantedTopic {
    /// Its table's place in the set.
    pub table: usize,
    pub topic: FedTopic,
    /// Another set's, which brings it to the same table.
    pub living: Option<Arc<TopicFeed>>,
}

impl SetFeeds {
    /// Consumers for what nobody brings yet, by the groups that they commit for. Dense weights are
    /// this set's alone.
    pub fn start(
        source: &FeedSource,
        topics: Vec<WantedTopic>,
        dense: FedDense<'_>,
    ) -> Result<Self, FeedError> {
        let mut feeds = SetFeeds::default();
        let mut by_group: BTreeMap<GroupEnds, Vec<(usize, FedTopic)>> = BTreeMap::new();
        for WantedTopic { table, topic, living } in topics {
            match living {
                Some(feed) => feeds.all.push(feed),
                None => {
                    let ends = topic.fed.group_ends(&topic.topic);
                    by_group.entry(ends).or_default().push((table, topic));
                }
            }
        }
        if by_group.is_empty() {
            by_group.insert(GroupEnds::default(), Vec::new());
        }
        let mut dense = Some(dense);
        for (ends, topics) in by_group {
            let (tables, topics): (Vec<usize>, Vec<FedTopic>) = topics.into_iter().unzip();
            let dense = dense.take();
            let consumers = Arc::new(UpdateFeeds::start(source, &ends, &topics, dense.as_ref())?);
            for (table, FedTopic { topic, fed }) in tables.into_iter().zip(topics) {
                let feed = Arc::new(TopicFeed::new(&consumers, topic.clone(), Some(fed)));
                feeds.all.push(Arc::clone(&feed));
                feeds.new.push((table, topic, feed));
            }
            let topics = dense.iter().flat_map(|dense| dense.versions.topics());
            let feed = |topic: &str| Arc::new(TopicFeed::new(&consumers, topic.to_owned(), None));
            feeds.all.extend(topics.map(feed));
        }
        Ok(feeds)
    }
}
