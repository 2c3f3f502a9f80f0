//! Consumers that read topics whole, as no members of their group: nobody takes partitions from
//! them, topics end one by one, and what is committed is where the next one begins.

use terrace_embedding::{FeedError, KeyKind, PartitionsRead, UpdateConsumer, UpdateConsumerConfig};

use crate::kafka_broker::{KafkaBroker, PATIENCE, wait_until};
use crate::recording_sink::{RecordingSink, Rows, made_rows};

const ITEMS: &str = "hps_et.wdl.items";
const USERS: &str = "hps_et.wdl.users";
const DIM: usize = 2;

fn publish(broker: &KafkaBroker, topic: &str, keys: &[i64], seed: u32) -> Rows {
    let publisher = broker.publisher();
    let (floats, rows) = made_rows(topic, keys, DIM, seed);
    publisher.publish_rows(topic, KeyKind::I64, keys, &floats, DIM).expect("room");
    publisher.flush(PATIENCE).expect("delivered");
    rows
}

fn whole(broker: &KafkaBroker, topics: &[&str]) -> UpdateConsumerConfig {
    UpdateConsumerConfig {
        reads: PartitionsRead::All,
        topic_patterns: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        ..broker.consumer_config("g")
    }
}

fn sink() -> std::sync::Arc<RecordingSink> {
    RecordingSink::with_tables(&[(ITEMS, KeyKind::I64, DIM), (USERS, KeyKind::I64, DIM)])
}

fn keys(count: i64) -> Vec<i64> {
    (0..count).collect()
}

/// Until all that has come is committed.
fn settle(broker: &KafkaBroker, consumer: &UpdateConsumer, topic: &str, messages: i64) {
    wait_until("all is committed", || {
        consumer.counters().at_end_for.is_some()
            && broker.committed("g", topic, 3).iter().flatten().sum::<i64>() == messages
    });
}

#[test]
fn all_of_one_group_get_everything_and_a_restart_goes_on() {
    let broker = KafkaBroker::start(&[(ITEMS, 3)]);
    let mut want = publish(&broker, ITEMS, &keys(300), 1);
    let sinks = [(); 2].map(|()| sink());
    let consumers = [0, 1].map(|at: usize| sinks[at].consume(whole(&broker, &[ITEMS])));
    for sink in &sinks {
        wait_until("all rows are there", || sink.has(&want));
    }
    want.extend(publish(&broker, ITEMS, &keys(100), 2));
    for sink in &sinks {
        wait_until("the new rows are there, too", || sink.has(&want));
    }
    let messages = consumers[0].counters().messages as i64;
    drop(consumers);
    wait_until("the stop has committed what was applied", || {
        broker.committed("g", ITEMS, 3).iter().flatten().sum::<i64>() == messages
    });
    let new = publish(&broker, ITEMS, &[7], 3);
    let again = sink();
    let _consumer = again.consume(whole(&broker, &[ITEMS]));
    wait_until("only what is new comes", || again.has(&new));
}

#[test]
fn a_topic_that_ends_loses_nothing_and_the_others_go_on() {
    let broker = KafkaBroker::start(&[(ITEMS, 3), (USERS, 3)]);
    let mut want = publish(&broker, ITEMS, &keys(50), 1);
    want.extend(publish(&broker, USERS, &keys(50), 1));
    let sink = sink();
    let consumer = sink.consume(whole(&broker, &[ITEMS, USERS]));
    wait_until("the first rows are there", || sink.has(&want));
    let before = consumer.counters().messages;
    let ended_at = consumer.end_topic(USERS);
    let missed = publish(&broker, USERS, &keys(20), 2);
    want.extend(publish(&broker, ITEMS, &keys(20), 2));
    wait_until("the other topic goes on", || sink.has(&want));
    settle(&broker, &consumer, ITEMS, {
        let of_users: i64 = ended_at.values().sum();
        consumer.counters().messages as i64 - of_users
    });
    assert!(consumer.counters().messages > before);
    assert!(sink.has(&want), "nothing of the one that has ended");
    let committed = broker.committed("g", USERS, 3);
    let committed = (0..).zip(committed).filter_map(|(at, offset)| Some((at, offset?)));
    assert_eq!(committed.collect::<std::collections::BTreeMap<i32, i64>>(), ended_at);
    // Whoever reads it next gets what was left, beside the consumer that still runs.
    let next = self::sink();
    let _next = next.consume(whole(&broker, &[USERS]));
    wait_until("what was left comes", || next.has(&missed));
}

#[test]
fn what_was_read_in_this_process_before_is_not_read_again() {
    let broker = KafkaBroker::start(&[(ITEMS, 3)]);
    let first = publish(&broker, ITEMS, &keys(30), 1);
    let one = sink();
    let config = whole(&broker, &[ITEMS]);
    let consumer = one.consume(config.clone());
    wait_until("the rows are there", || one.has(&first));
    let ended_at = consumer.end_topic(ITEMS);
    drop(consumer);
    let second = publish(&broker, ITEMS, &keys(5), 2);
    let resume_at = ended_at.into_iter().map(|(at, offset)| ((ITEMS.to_owned(), at), offset));
    // For this group nothing is committed.
    let group_id = "other".to_owned();
    let config = UpdateConsumerConfig { group_id, resume_at: resume_at.collect(), ..config };
    let other = sink();
    let _consumer = other.consume(config);
    wait_until("only what is new comes", || other.has(&second));
}

#[test]
fn topics_that_come_later_and_brokers_that_come_later_are_waited_for() {
    let broker = KafkaBroker::start(&[("other", 1)]);
    broker.cluster.broker_down(-1).expect("a broker");
    let sink = sink();
    let consumer = sink.consume(whole(&broker, &[ITEMS]));
    wait_until("it says why it does nothing", || consumer.counters().last_error.is_some());
    broker.cluster.broker_up(-1).expect("a broker");
    wait_until("nothing is behind", || consumer.counters().at_end_for.is_some());
    broker.cluster.create_topic(ITEMS, 2, 1).expect("a topic");
    let want = publish(&broker, ITEMS, &keys(40), 1);
    wait_until("the rows are there", || sink.has(&want));
}

#[test]
fn topics_that_are_read_whole_are_named() {
    let broker = KafkaBroker::start(&[]);
    let config = whole(&broker, &["^hps_et.+$"]);
    let error = UpdateConsumer::start(config, sink()).err().expect("a pattern");
    assert!(matches!(&error, FeedError::Config(text) if text.contains("patterns")), "{error}");
}
