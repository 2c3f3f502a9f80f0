//! The tables of a model, with their rows where the ops compute.
//!
//! Rows of all tables of one width lie one after the other, each table's default row behind its
//! own, so that a step names rows by one number and gathers them in one op.

use std::ops::Range;

use terrace_device::cuda::PinnedBuffer;
use terrace_device::{Buffer, DType, Device, View};
use terrace_kernels::unpack_row;

use crate::embedding_table::EmbeddingTable;
use crate::error::Error;
use crate::key_index::KeyIndex;

pub struct TableSet {
    device: Device,
    tables: Vec<PlacedTable>,
    widths: Vec<PlacedRows>,
}

/// The rows of all tables of one width.
struct PlacedRows {
    dim: usize,
    count: usize,
    /// f32 `[count, dim]`
    rows: RowMemory,
}

enum RowMemory {
    Own(Buffer),
    /// Of the host, read by a GPU.
    Pinned(PinnedBuffer),
}

/// Where the rows of tables are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residence {
    /// Where the ops compute.
    #[default]
    Device,
    /// In host memory, which a GPU reads row by row.
    Host,
}

struct PlacedTable {
    name: String,
    /// Which of the widths its rows have.
    width: usize,
    index: KeyIndex,
    /// Of its first row.
    start: usize,
    default: usize,
}

/// A table of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub usize);

/// Where an id's row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRow {
    /// Among those of [`TableSet::rows`].
    pub row: i32,
    /// Otherwise it is the table's default row.
    pub is_known: bool,
}

impl TableSet {
    /// Brings tables to a device.
    pub fn place(
        device: &Device,
        tables: Vec<EmbeddingTable>,
        residence: Residence,
    ) -> Result<Self, Error> {
        let mut dims: Vec<usize> = Vec::new();
        for table in &tables {
            if !dims.contains(&table.dim()) {
                dims.push(table.dim());
            }
        }
        let mut numbers = vec![Vec::new(); dims.len()];
        let mut placed = Vec::with_capacity(tables.len());
        for table in tables {
            let dim = table.dim();
            let width = dims.iter().position(|it| *it == dim).expect("it was listed");
            let numbers = &mut numbers[width];
            let start = numbers.len() / dim.max(1);
            let default = start + table.rows().rows();
            numbers.resize((default + 1) * dim, 0f32);
            for row in 0..table.rows().rows() {
                let out = &mut numbers[(start + row) * dim..][..dim];
                unpack_row(table.rows().format(), table.rows().row(row), out);
            }
            numbers[default * dim..][..dim].copy_from_slice(table.default_row());
            let (name, index) = (table.name().to_owned(), table.index().clone());
            placed.push(PlacedTable { name, width, index, start, default });
        }
        let rows = dims.into_iter().zip(numbers);
        let widths = rows.map(|(dim, numbers)| PlacedRows::place(device, dim, &numbers, residence));
        let widths: Vec<PlacedRows> = widths.collect::<Result<_, _>>()?;
        match placed.is_empty() {
            true => Err(Error::Empty),
            false => Ok(TableSet { device: device.clone(), tables: placed, widths }),
        }
    }

    /// Numbers of a table's rows.
    pub fn dim(&self, table: TableId) -> usize {
        self.rows_like(table).dim
    }

    pub fn table(&self, name: &str) -> Option<TableId> {
        self.tables.iter().position(|table| table.name == name).map(TableId)
    }

    pub fn name(&self, table: TableId) -> &str {
        &self.tables[table.0].name
    }

    /// f32 `[rows, dim]`: those of all tables that are as wide as this one.
    pub fn rows(&self, table: TableId) -> View<'_> {
        let PlacedRows { rows, count, dim } = self.rows_like(table);
        match rows {
            RowMemory::Own(rows) => rows.view(DType::F32, [*count, *dim]),
            RowMemory::Pinned(rows) => rows.device_view(DType::F32, [*count, *dim]),
        }
    }

    fn rows_like(&self, table: TableId) -> &PlacedRows {
        &self.widths[self.tables[table.0].width]
    }

    /// Where a table's own rows are among those of all, its default row left out.
    pub fn rows_of(&self, table: TableId) -> Range<usize> {
        let PlacedTable { start, default, .. } = self.tables[table.0];
        start..default
    }

    /// The numbers of a table's own rows.
    pub fn host_rows(&self, table: TableId) -> Result<Vec<f32>, Error> {
        let own = self.rows_of(table);
        if let PlacedRows { rows: RowMemory::Pinned(rows), count, dim } = self.rows_like(table) {
            let rows = rows.view(DType::F32, [*count, *dim]).rows(own);
            return Ok(rows.as_slice::<f32>().to_vec());
        }
        let rows = self.rows(table).rows(own);
        match &self.device {
            Device::Cpu => Ok(rows.as_slice::<f32>().to_vec()),
            Device::Cuda(device) => {
                let mut bytes = vec![0; rows.dense_bytes()];
                device.read(rows, &mut bytes)?;
                let numbers = bytes.as_chunks().0.iter();
                Ok(numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect())
            }
        }
    }

    /// The id of a row of [`TableSet::rows_of`], counted from the table's first.
    pub fn key(&self, table: TableId, row: usize) -> Option<i64> {
        self.tables[table.0].index.key(row)
    }

    /// The row of an id, or the table's default row.
    pub fn look_up(&self, table: TableId, key: i64) -> FoundRow {
        self.index(table).look_up(key)
    }

    /// For many look-ups in one table.
    pub fn index(&self, table: TableId) -> TableIndex<'_> {
        TableIndex { table: &self.tables[table.0] }
    }
}

impl PlacedRows {
    fn place(
        device: &Device,
        dim: usize,
        numbers: &[f32],
        residence: Residence,
    ) -> Result<Self, Error> {
        let count = numbers.len() / dim.max(1);
        if i32::try_from(count).is_err() {
            return Err(Error::TooManyRows { rows: count });
        }
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let rows = match (device, residence) {
            (Device::Cuda(device), Residence::Host) => {
                let mut rows = device.pinned(bytes.len())?;
                rows.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                RowMemory::Pinned(rows)
            }
            _ => {
                let mut rows = device.take(bytes.len(), "embedding tables")?;
                match device {
                    Device::Cpu => rows.bytes_mut()[..bytes.len()].copy_from_slice(&bytes),
                    Device::Cuda(device) => {
                        device.write(&rows.view_mut(DType::F32, [count, dim]), &bytes)?;
                    }
                }
                RowMemory::Own(rows)
            }
        };
        Ok(PlacedRows { dim, count, rows })
    }
}

/// One table of a set.
#[derive(Clone, Copy)]
pub struct TableIndex<'a> {
    table: &'a PlacedTable,
}

impl TableIndex<'_> {
    /// As [`TableSet::look_up`].
    pub fn look_up(&self, key: i64) -> FoundRow {
        let found = self.table.index.get(key);
        let row = found.map_or(self.table.default, |row| self.table.start + row);
        FoundRow { row: row as i32, is_known: found.is_some() }
    }

    /// The rows of many ids; how many are not known.
    pub fn look_up_many<'a>(&self, pairs: impl Iterator<Item = (&'a i64, &'a mut i32)>) -> usize {
        let (start, default) = (self.table.start as i32, self.table.default as i32);
        let mut unknown = 0;
        match &self.table.index {
            // Without a branch, so that the processor takes several at once.
            KeyIndex::Dense { rows } => {
                for (id, row) in pairs {
                    let is_known = id.cast_unsigned() < *rows as u64;
                    *row = if is_known { start.wrapping_add(*id as i32) } else { default };
                    unknown += usize::from(!is_known);
                }
            }
            KeyIndex::Listed { rows, .. } => {
                for (id, row) in pairs {
                    let found = rows.get(id);
                    *row = found.map_or(default, |found| start + *found as i32);
                    unknown += usize::from(found.is_none());
                }
            }
        }
        unknown
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_kernels::{Matrix, WeightFormat};

    use super::*;

    fn matrix(numbers: &[f32], rows: usize) -> Matrix {
        let mut buffer = Buffer::zeroed(4 * numbers.len(), "rows").unwrap();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        buffer.bytes_mut().copy_from_slice(&bytes);
        Matrix::new(WeightFormat::F32, rows, numbers.len() / rows, Arc::new(buffer))
    }

    #[test]
    fn ids_have_rows_and_unknown_ones_the_default() {
        let dense = EmbeddingTable::new("a", matrix(&[1.0, 2.0, 3.0, 4.0], 2), None, None);
        let keys = [1_000_000_007, -5];
        let rows = matrix(&[5.0, 6.0, 7.0, 8.0], 2);
        let listed = EmbeddingTable::new("b", rows, Some(&keys), Some(vec![9.0, 9.5]));
        let tables = vec![dense.unwrap(), listed.unwrap()];
        let set = TableSet::place(&Device::Cpu, tables, Residence::Host).unwrap();
        let [a, b] = ["a", "b"].map(|name| set.table(name).unwrap());
        let row = |table, key| {
            let found = set.look_up(table, key);
            (set.rows(table).row::<f32>(found.row as usize).to_vec(), found.is_known)
        };
        assert_eq!(row(a, 1), (vec![3.0, 4.0], true));
        assert_eq!(row(a, 2), (vec![0.0, 0.0], false));
        assert_eq!(row(a, -1), (vec![0.0, 0.0], false));
        assert_eq!(row(b, -5), (vec![7.0, 8.0], true));
        assert_eq!(row(b, 0), (vec![9.0, 9.5], false));
        for table in [a, b] {
            let ids = [0, -5, 1, 7, i64::MAX, i64::MIN, 1_000_000_007];
            let mut rows = [0; 7];
            let unknown = set.index(table).look_up_many(ids.iter().zip(&mut rows));
            let want = ids.map(|id| set.look_up(table, id));
            assert_eq!(rows, want.map(|found| found.row));
            assert_eq!(unknown, want.iter().filter(|found| !found.is_known).count());
        }
        assert_eq!([set.rows_of(a), set.rows_of(b)], [0..2, 3..5]);
        let keys = |table| [0, 1, 2].map(|row| set.key(table, row));
        assert_eq!(keys(a), [Some(0), Some(1), None]);
        assert_eq!(keys(b), [Some(1_000_000_007), Some(-5), None]);
        assert!(set.table("c").is_none());
    }

    #[test]
    fn tables_that_do_not_fit_are_refused() {
        let small = || matrix(&[1.0, 2.0], 2);
        let twice = EmbeddingTable::new("t", small(), Some(&[4, 4]), None).err().unwrap();
        let want = "table \"t\" has the key 4 twice, in rows 0 and 1";
        assert_eq!(twice.to_string(), want);
        assert!(EmbeddingTable::new("t", small(), Some(&[4]), None).is_err());
        assert!(EmbeddingTable::new("t", small(), None, Some(vec![0.0; 3])).is_err());
        assert!(TableSet::place(&Device::Cpu, Vec::new(), Residence::Device).is_err());
    }

    #[test]
    fn tables_of_other_widths_have_rows_of_their_own() {
        let table = |name: &str, numbers: &[f32], rows: usize| {
            EmbeddingTable::new(name, matrix(numbers, rows), None, None).unwrap()
        };
        let tables = vec![
            table("a", &[1.0, 2.0], 1),
            table("b", &[3.0, 4.0], 2),
            table("c", &[5.0, 6.0], 1),
        ];
        let set = TableSet::place(&Device::Cpu, tables, Residence::Host).unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| set.table(name).unwrap());
        assert_eq!([set.dim(a), set.dim(b), set.dim(c)], [2, 1, 2]);
        let row = |table, key| set.look_up(table, key).row;
        assert_eq!([row(a, 0), row(a, 1), row(c, 0)], [0, 1, 2]);
        assert_eq!([row(b, 0), row(b, 1), row(b, 2)], [0, 1, 2]);
        assert_eq!(set.rows(c).as_slice::<f32>(), [1.0, 2.0, 0.0, 0.0, 5.0, 6.0, 0.0, 0.0]);
        assert_eq!(set.host_rows(b).unwrap(), [3.0, 4.0]);
    }
}
