//! The keys of a request, by table.
//!
//! A request has them by sample, then table, then slot; and for each table where its slots begin,
//! one table after the other, each from 0 on.

use crate::ctr::CtrTable;

/// What a request asks of one table.
pub(super) struct TableKeys {
    pub keys: Vec<i64>,
    /// `[samples * slots + 1]`
    pub offsets: Vec<i32>,
}

/// What is wrong with the request, otherwise.
pub(super) fn keys_by_table(
    tables: &[CtrTable],
    keys: &[i64],
    row_index: &[i32],
) -> Result<Vec<TableKeys>, String> {
    let slots: usize = tables.iter().map(|table| table.slots).sum();
    let samples = row_index.len().saturating_sub(tables.len()) / slots.max(1);
    let mut rest = row_index;
    let mut asked = Vec::with_capacity(tables.len());
    for table in tables {
        let (offsets, others) = rest
            .split_at_checked(samples * table.slots + 1)
            .ok_or_else(|| format!("{} row indices are too few", row_index.len()))?;
        asked.push(TableKeys { keys: Vec::new(), offsets: offsets.to_vec() });
        rest = others;
    }
    let mut keys = keys.iter();
    for sample in 0..samples {
        for (table, asked) in tables.iter().zip(&mut asked) {
            let [start, end] = [sample, sample + 1].map(|at| asked.offsets[at * table.slots]);
            let count = usize::try_from(end - start).map_err(|_| "row indices fall")?;
            asked.keys.extend(keys.by_ref().take(count));
        }
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use terrace_kernels::Combiner;

    use super::*;

    fn table(slots: usize) -> CtrTable {
        CtrTable {
            name: "table".into(),
            slots,
            dim: 1,
            combiner: Combiner::Sum,
            keys_per_slot_most: 4,
            keys_per_sample_most: 16,
        }
    }

    /// Rows `1|3||8,9` and `2|||8,10`, of four slots in one table and in two.
    #[test]
    fn keys_come_by_sample_and_go_by_table() {
        let keys = [1, 3, 8, 9, 2, 8, 10];
        let one = keys_by_table(&[table(4)], &keys, &[0, 1, 2, 2, 4, 5, 5, 5, 7]).unwrap();
        assert_eq!((one.len(), &one[0].keys), (1, &keys.to_vec()));
        let index = [0, 1, 2, 3, 3, 0, 0, 2, 2, 4];
        let two = keys_by_table(&[table(2), table(2)], &keys, &index).unwrap();
        assert_eq!((&two[0].keys, &two[0].offsets), (&vec![1, 3, 2], &vec![0, 1, 2, 3, 3]));
        assert_eq!((&two[1].keys, &two[1].offsets), (&vec![8, 9, 8, 10], &vec![0, 0, 2, 2, 4]));
    }
}
