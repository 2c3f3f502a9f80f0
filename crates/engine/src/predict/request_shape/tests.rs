//! Requests that add up, and those that do not.

use proptest::prelude::*;
use terrace_embedding::KeyError;

use super::*;

fn shape(slots: &[usize]) -> RequestShape {
    let table = |slots: &usize| SlotsOfTable { slots: *slots, keys_most: 8 };
    RequestShape {
        dense: 2,
        tables: slots.iter().map(table).collect(),
        key_kind: KeyKind::U32,
        outputs: 1,
        max_samples: 4,
    }
}

fn request(dense: usize, keys: &[i64], row_offsets: &[i32]) -> VcsrRequest {
    VcsrRequest { dense: vec![0.5; dense], keys: keys.to_vec(), row_offsets: row_offsets.to_vec() }
}

#[test]
fn keys_come_apart_by_table() {
    // Two samples, two tables: (1 | 3, 4) and ( | 5).
    let samples = shape(&[1, 1]).check(request(4, &[1, 3, 4, 5], &[0, 1, 1, 0, 2, 3]));
    let samples = samples.expect("it adds up");
    assert_eq!(samples.count, 2);
    assert_eq!(samples.tables[0], TableKeys::new(vec![1], vec![0, 1, 1]));
    assert_eq!(samples.tables[1], TableKeys::new(vec![3, 4, 5], vec![0, 2, 3]));
}

#[test]
fn what_does_not_add_up_is_refused_with_the_numbers() {
    let shape = shape(&[1, 1]);
    let refused = |dense, keys: &[i64], offsets: &[i32]| {
        shape.check(request(dense, keys, offsets)).expect_err("it does not add up")
    };
    let count = |found| PredictError::OffsetCount { found, slots: 2, tables: 2 };
    assert_eq!(refused(2, &[], &[]), count(0));
    assert_eq!(refused(2, &[], &[0, 0, 0]), count(3));
    assert_eq!(refused(0, &[], &[0, 0]), PredictError::NoSamples);
    let dense = PredictError::DenseCount { found: 3, wanted: 2, samples: 1, dense: 2 };
    assert_eq!(refused(3, &[], &[0, 0, 0, 0]), dense);
    assert_eq!(refused(2, &[], &[0, 0, 1, 1]), PredictError::FirstOffset { table: 1, found: 1 });
    let falling = PredictError::FallingOffset { table: 0, at: 1, before: 0, after: -1 };
    assert_eq!(refused(2, &[], &[0, -1, 0, 0]), falling);
    assert_eq!(refused(2, &[1], &[0, 1, 0, 1]), PredictError::KeyCount { found: 1, wanted: 2 });
    let huge = [0, i32::MAX, 0, i32::MAX];
    let wanted = 2 * i32::MAX as u64;
    assert_eq!(refused(2, &[1], &huge), PredictError::KeyCount { found: 1, wanted });
    let key = PredictError::Key(KeyError::OutOfRange { key: -1 });
    assert_eq!(refused(2, &[-1], &[0, 1, 0, 0]), key);
    let many = PredictError::TooManySamples { found: 5, most: 4 };
    assert_eq!(refused(10, &[], &[0; 12]), many);
    let keys = vec![1; 33];
    let many = PredictError::TooManyKeys { table: 0, found: 33, samples: 4, most: 32 };
    assert_eq!(refused(2, &keys, &[0, 33, 0, 0]), many);
}

proptest! {
    /// However a request was written, taking it apart by table loses and moves nothing.
    #[test]
    fn every_key_keeps_its_slot(
        slots in prop::collection::vec(1usize..4, 1..4),
        counts in prop::collection::vec(0i32..3, 64),
        samples in 1usize..4,
    ) {
        let shape = shape(&slots);
        let mut next = counts.iter().cycle().copied();
        let (mut keys, mut offsets) = (Vec::new(), vec![vec![0]; slots.len()]);
        let mut wanted = vec![Vec::new(); slots.len()];
        for _ in 0..samples {
            for (table, slots) in slots.iter().enumerate() {
                for _ in 0..*slots {
                    let count = next.next().expect("it goes round");
                    let first = keys.len() as i64;
                    let own: Vec<i64> = (first..first + i64::from(count)).collect();
                    keys.extend(&own);
                    wanted[table].extend(own);
                    let last = *offsets[table].last().expect("it begins with 0");
                    offsets[table].push(last + count);
                }
            }
        }
        let request = VcsrRequest {
            dense: vec![0.0; samples * 2],
            keys,
            row_offsets: offsets.concat(),
        };
        let checked = shape.check(request).expect("it adds up");
        for (table, own) in checked.tables.iter().enumerate() {
            prop_assert_eq!(own.keys(), &wanted[table]);
            prop_assert_eq!(own.offsets(), &offsets[table]);
        }
    }

    /// Whatever numbers come, the answer is samples that add up, or an error.
    #[test]
    fn no_request_breaks_it(
        dense in 0usize..12,
        keys in prop::collection::vec(any::<i64>(), 0..12),
        offsets in prop::collection::vec(prop_oneof![0i32..4, any::<i32>()], 0..16),
    ) {
        if let Ok(samples) = shape(&[2, 1]).check(request(dense, &keys, &offsets)) {
            let total: usize = samples.tables.iter().map(|table| table.keys().len()).sum();
            prop_assert_eq!(total, keys.len());
        }
    }
}
