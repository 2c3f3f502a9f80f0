//! The offsets at which partitions are read from a time on, and whether others have begun before.

use std::collections::HashMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::consumer_context::FeedContext;
use super::update_batcher::PartitionOffset;

/// Asks the brokers. The ends are asked for first: a partition that has no message of that time or
/// later is read from the end that it had before, so that none is missed which comes in between.
pub fn start_offsets(
    consumer: &BaseConsumer<FeedContext>,
    partitions: &[(String, i32)],
    time_of: &dyn Fn(&str) -> i64,
    timeout: Duration,
) -> KafkaResult<Vec<PartitionOffset>> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let ends = consumer.offsets_for_times(list(partitions, &|_| Offset::End)?, timeout)?;
    let time = |topic: &str| Offset::Offset(time_of(topic).max(0));
    let found = consumer.offsets_for_times(list(partitions, &time)?, timeout)?;
    let mut starts = Vec::with_capacity(partitions.len());
    for (topic, partition) in partitions {
        let offset = match (answer(&found, topic, *partition)?, answer(&ends, topic, *partition)?) {
            (Some(offset), _) | (None, Some(offset)) => offset,
            (None, None) => return Err(KafkaError::OffsetFetch(RDKafkaErrorCode::NoOffset)),
        };
        starts.push(PartitionOffset { topic: topic.clone(), partition: *partition, offset });
    }
    Ok(starts)
}

/// What the group has committed of some partitions.
pub fn committed(
    consumer: &BaseConsumer<FeedContext>,
    partitions: &[(String, i32)],
    timeout: Duration,
) -> KafkaResult<HashMap<(String, i32), i64>> {
    if partitions.is_empty() {
        return Ok(HashMap::new());
    }
    let found = consumer.committed_offsets(list(partitions, &|_| Offset::Invalid)?, timeout)?;
    let mut committed = HashMap::new();
    for partition in partitions {
        if let Some(offset) = answer(&found, &partition.0, partition.1)? {
            committed.insert(partition.clone(), offset);
        }
    }
    Ok(committed)
}

/// `None` where there is no such message.
fn answer(list: &TopicPartitionList, topic: &str, partition: i32) -> KafkaResult<Option<i64>> {
    let Some(element) = list.find_partition(topic, partition) else { return Ok(None) };
    element.error()?;
    Ok(match element.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    })
}

fn list(
    partitions: &[(String, i32)],
    offset_of: &dyn Fn(&str) -> Offset,
) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for (topic, partition) in partitions {
        list.add_partition_offset(topic, *partition, offset_of(topic))?;
    }
    Ok(list)
}
