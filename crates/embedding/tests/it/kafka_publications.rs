//! Versions of tables that are published from their files: whole, and only what is new.

use std::path::Path;
use std::time::Duration;

use terrace_embedding::{
    AuditedRows, FeedError, FolderPublication, KeyKind, PartitionRule, PublishError, RowDigests,
    SparseFolder, TableDiff, UpdatePublisher, UpdatePublisherConfig,
};

use crate::kafka_broker::{KafkaBroker, PATIENCE, wait_until};
use crate::recording_sink::{RecordingSink, Rows};
use crate::served::{DIM, row, rows, write_files};

const TOPIC: &str = "hps_et.m.t";

fn open(folder: &Path) -> SparseFolder {
    SparseFolder::open(folder, Some(DIM)).expect("files")
}

fn publication<'a>(folder: &'a SparseFolder, keys: Option<&'a [i64]>) -> FolderPublication<'a> {
    FolderPublication { folder, keys, topic: TOPIC, key_kind: KeyKind::I64, flush: PATIENCE }
}

#[test]
fn a_version_is_published_whole_and_the_next_by_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    let keys: Vec<i64> = (0..1000).collect();
    write_files(&old, &keys, 1);
    write_files(&new, &keys[100..], 1);
    // Some rows change, one twice, and one comes.
    let changed: Vec<i64> = vec![500, 501, 502, 5000, 500];
    let (mut all, mut numbers) = (keys[100..].to_vec(), rows(&keys[100..], 1));
    all.extend(&changed);
    numbers.extend(rows(&changed[..4], 2));
    numbers.extend(row(500, 3));
    let [of_keys, of_rows] = ["key", "emb_vector"].map(|name| new.join(name));
    std::fs::write(of_keys, all.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>())
        .unwrap();
    std::fs::write(of_rows, numbers.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>())
        .unwrap();

    let broker = KafkaBroker::start(&[(TOPIC, 3)]);
    let sink = RecordingSink::with_tables(&[(TOPIC, KeyKind::I64, DIM)]);
    let consumer = sink.consume(broker.consumer_config("g"));
    let publisher = broker.publisher();
    let (old, new) = (open(&old), open(&new));
    let mut last = 0;
    let sent = publication(&old, None).send(&publisher, &mut |rows| last = rows).unwrap();
    assert_eq!((sent, last, publisher.acknowledged_rows()), (1000, 1000, 1000));

    let digests = |folder: &SparseFolder| {
        let rows = AuditedRows::Files(std::slice::from_ref(folder));
        RowDigests::read(rows, KeyKind::I64, DIM, &mut |_| ()).unwrap()
    };
    let (of_old, of_new) = (digests(&old), digests(&new));
    let diff = TableDiff::between(&of_old, &of_new, 0);
    assert_eq!((diff.only_in_a, diff.only_in_b, diff.changed), (100, 1, 3));
    let news = TableDiff::news(&of_old, &of_new);
    assert_eq!(news, [500, 501, 502, 5000]);
    let sent = publication(&new, Some(&news)).send(&publisher, &mut |_| ()).unwrap();
    // With the rows that later ones of the same keys replace.
    assert_eq!((sent, publisher.acknowledged_rows()), (8, 1008));
    let newest = |key: i64| match key {
        500 => 3,
        501 | 502 | 5000 => 2,
        _ => 1,
    };
    let bits = |key: i64| row(key, newest(key)).into_iter().map(f32::to_bits).collect();
    let all = keys.iter().copied().chain([5000]);
    let want: Rows = all.map(|key| ((TOPIC.to_owned(), key), bits(key))).collect();
    wait_until("the last rows are there", || sink.has(&want));
    drop(consumer);
}

#[test]
fn brokers_that_do_not_answer_are_an_error_and_nothing_has_arrived() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path(), &[1, 2, -3], 1);
    let folder = open(folder.path());
    let config = UpdatePublisherConfig {
        wait_most: Duration::from_millis(300),
        ..UpdatePublisherConfig::new("127.0.0.1:1".to_owned(), PartitionRule::Mix)
    };
    let publisher = UpdatePublisher::new(config).unwrap();
    let error = publication(&folder, None).send(&publisher, &mut |_| ()).unwrap_err();
    assert!(matches!(error, PublishError::Feed(FeedError::Partitions { .. })), "{error}");
    assert_eq!(publisher.acknowledged_rows(), 0);
    let narrow = FolderPublication { key_kind: KeyKind::U32, ..publication(&folder, None) };
    let error = narrow.send(&publisher, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("key -3 does not fit into a u32"), "{error}");
}
