//! The sorter against a sort in memory, over odd sizes and budgets.

use proptest::prelude::*;

use super::*;

/// Events whose items count up, so that the order of equal keys shows.
fn events(keys: &[(i64, i64)]) -> Vec<Event> {
    let event = |(item, (user, time)): (usize, &(i64, i64))| Event {
        user: *user,
        time: *time,
        item: item as i64,
        ..Event::default()
    };
    keys.iter().enumerate().map(event).collect()
}

fn sorted(events: &[Event], memory: SortMemory) -> Result<Vec<Event>, DatasetError> {
    let folder = tempfile::tempdir().unwrap();
    let runs =
        sort_events(folder.path(), memory, |take| events.iter().copied().try_for_each(take))?;
    assert_eq!(runs.events, events.len() as u64);
    let mut merged = runs.merge()?;
    let mut found = Vec::new();
    while let Some(event) = merged.next_event()? {
        found.push(event);
    }
    Ok(found)
}

fn check(keys: &[(i64, i64)], memory: SortMemory) {
    let events = events(keys);
    let mut wanted = events.clone();
    wanted.sort_by_key(Event::key);
    assert_eq!(sorted(&events, memory).unwrap(), wanted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn as_sorting_in_memory(
        keys in proptest::collection::vec((-3i64..4, -2i64..3), 0..700),
        buffer_events in 2usize..40,
    ) {
        check(&keys, SortMemory(buffer_events * size_of::<Event>() * 5 / 2));
    }
}

#[test]
fn odd_sizes() {
    let buffer = SortMemory(10 * size_of::<Event>() * 5 / 2);
    assert_eq!(buffer.buffer_events(), 10);
    for count in [0, 1, 9, 10, 11, 19, 20, 21, 399] {
        let keys: Vec<(i64, i64)> = (0..count).map(|n| (n * 7 % 5, n * 11 % 13)).collect();
        check(&keys, buffer);
    }
    check(&[(i64::MAX, i64::MIN), (i64::MIN, i64::MAX), (0, 0)], buffer);
}

#[test]
fn the_error_of_a_run_that_cannot_be_written_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let endless = sort_events(&gone, SortMemory(0), |take| {
        loop {
            take(Event::default())?;
        }
    });
    let error = endless.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("cannot create") && error.contains("run-0"), "{error}");
}

#[test]
fn an_error_of_the_source_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let failed = sort_events(folder.path(), SortMemory(0), |take| {
        take(Event::default())?;
        Err(DatasetError::NoTimes { dataset: "x".into() })
    });
    assert!(matches!(failed.map(|_| ()), Err(DatasetError::NoTimes { .. })));
}
