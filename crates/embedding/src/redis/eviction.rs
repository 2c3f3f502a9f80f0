//! A partition that has more rows than it may have loses some, exactly down to its target.
//!
//! By chance, or those whose marks say that they were used longest ago or least. Rows without a
//! mark go first; they are looked for where the partition has more rows than marks, which reads its
//! rows and is seldom needed: rows of somebody who does not mark, or from before the policy was
//! set. Marks without a row are taken away on the way.
//!
//! Within this process one call at a time evicts from a partition. Other servers may do so at the
//! same time: how many rows are left is asked before each batch, so each of them stops when the
//! target is reached. What remains possible is that each of them takes one batch too many, those
//! that they sent between the same two counts.
//!
//! Memory is 16 bytes for each row that leaves, and one batch.

use std::collections::BinaryHeap;

use redis::Value;
use terrace_tiers::TierError;

use super::hash_page::{Cursor, HashPage};
use super::redis_table::{Hash, RedisTable};
use super::table_call::TableCall;
use super::use_marks::UseMarks;

/// Looks at all marks before it leaves the rest to the next write. One is enough where nobody else
/// writes; marks without rows and rows that come meanwhile take more.
const ROUNDS_MOST: usize = 8;
/// The fields of rows in a page.
const ROWS_OF_PAGE: usize = 256;

/// Evicts, if the partition has more rows than it may have.
pub(super) async fn relieve(call: &TableCall<'_>, partition: u32) -> Result<(), TierError> {
    let table = call.table;
    let _one = table.partition(partition).evicting.lock().await;
    let eviction = Eviction { call, table, partition, left: rows_left(table) };
    let rows = eviction.count().await?;
    if rows <= table.overflow.margin {
        return Ok(());
    }
    if table.marks == UseMarks::None {
        return eviction.evict_by_chance(rows).await;
    }
    eviction.evict_by_use(rows).await?;
    match table.marks {
        UseMarks::Count => eviction.halve_counts().await,
        UseMarks::LastUse | UseMarks::None => Ok(()),
    }
}

/// After an eviction.
fn rows_left(table: &RedisTable) -> u64 {
    (table.overflow.margin as f64 * table.overflow.target).floor() as u64
}

struct Eviction<'a> {
    call: &'a TableCall<'a>,
    table: &'a RedisTable,
    partition: u32,
    /// Rows to come down to.
    left: u64,
}

impl Eviction<'_> {
    async fn evict_by_chance(&self, rows: u64) -> Result<(), TierError> {
        let hash = self.rows_hash();
        // Of those that were too many when it began: whoever writes meanwhile evicts after it.
        let (mut rows, mut surplus) = (rows, rows.saturating_sub(self.left));
        while surplus > 0 && rows > self.left {
            let wanted = surplus.min(rows - self.left).min(self.table.fields as u64);
            let mut choose = redis::cmd("HRANDFIELD");
            choose.arg(&hash.name).arg(wanted);
            let fields = read_fields(self.table, self.call.run(hash, choose).await?)?;
            if fields.is_empty() {
                break;
            }
            surplus -= wanted;
            rows = self.remove(&fields).await?;
        }
        Ok(())
    }

    async fn evict_by_use(&self, rows: u64) -> Result<(), TierError> {
        let mut rows = rows;
        for _ in 0..ROUNDS_MOST {
            if rows <= self.left {
                return Ok(());
            }
            if self.mark_count().await? < rows {
                rows = self.evict_unmarked(rows).await?;
            }
            if rows <= self.left {
                return Ok(());
            }
            let victims = self.least_used(rows - self.left).await?;
            if victims.is_empty() {
                // No mark is left, and rows that are not marked were all seen.
                return self.evict_by_chance(rows).await;
            }
            rows = self.remove_while_too_many(rows, &victims).await?;
        }
        Ok(())
    }

    /// Evicts rows without a mark; gives the rows that are left.
    async fn evict_unmarked(&self, rows: u64) -> Result<u64, TierError> {
        let (mut rows, mut cursor) = (rows, Some(Cursor::first()));
        let fields_of_page = ROWS_OF_PAGE.min(self.table.read_rows);
        while let Some(from) = cursor.filter(|_| rows > self.left) {
            let page = self.page(self.rows_hash(), from, fields_of_page).await?;
            cursor = page.next;
            let fields: Vec<Vec<u8>> = page.entries.into_iter().map(|(field, _)| field).collect();
            let unmarked = self.unmarked(fields).await?;
            rows = self.remove_while_too_many(rows, &unmarked).await?;
        }
        Ok(rows)
    }

    /// Those of the fields whose mark is missing or says nothing.
    async fn unmarked(&self, fields: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, TierError> {
        if fields.is_empty() {
            return Ok(fields);
        }
        let hash = self.marks_hash();
        let mut get = redis::cmd("HMGET");
        get.arg(&hash.name).arg(&fields);
        let answer = self.call.run(hash, get).await?;
        let Value::Array(marks) = answer else { return Err(self.table.unexpected("HMGET")) };
        let says_nothing = |mark: &Value| match mark {
            Value::BulkString(mark) => self.table.marks.worth(mark).is_none(),
            _ => true,
        };
        let unmarked = fields.into_iter().zip(&marks).filter(|(_, mark)| says_nothing(mark));
        Ok(unmarked.map(|(field, _)| field).collect())
    }

    /// The fields of so many marks with the smallest worth.
    async fn least_used(&self, wanted: u64) -> Result<Vec<Vec<u8>>, TierError> {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let mut least = BinaryHeap::new();
        let mut cursor = Some(Cursor::first());
        while let Some(from) = cursor {
            let page = self.page(self.marks_hash(), from, self.table.fields).await?;
            cursor = page.next;
            for (field, mark) in page.entries {
                let Some(key) = self.table.key(&field) else { continue };
                let entry = (self.table.marks.worth(&mark).unwrap_or(0), key);
                if least.len() < wanted {
                    least.push(entry);
                } else if least.peek().is_some_and(|most| entry < *most) {
                    least.pop();
                    least.push(entry);
                }
            }
        }
        let fields = least.into_sorted_vec().into_iter();
        Ok(fields.map(|(_, key)| self.table.field(key).as_ref().to_vec()).collect())
    }

    /// Removes fields, the first ones first, until few enough rows are left; gives how many are.
    async fn remove_while_too_many(&self, rows: u64, fields: &[Vec<u8>]) -> Result<u64, TierError> {
        let (mut rows, mut fields) = (rows, fields);
        while rows > self.left && !fields.is_empty() {
            let surplus = usize::try_from(rows - self.left).unwrap_or(usize::MAX);
            let batch = surplus.min(self.table.fields).min(fields.len());
            let (now, later) = fields.split_at(batch);
            rows = self.remove(now).await?;
            fields = later;
        }
        Ok(rows)
    }

    /// Removes rows and their marks; gives how many rows are left.
    async fn remove(&self, fields: &[Vec<u8>]) -> Result<u64, TierError> {
        let [rows, marks] = self.table.remove_commands(self.partition, fields);
        let rows = vec![rows, self.rows_hash().count_command()];
        let answers = self.call.run_all(self.partition, rows, vec![marks]).await?;
        self.table.read_count(&answers.rows[1])
    }

    /// Rows that were used often long ago do not stay for ever. A count that somebody adds to
    /// meanwhile may lose that, and one that a page repeats is halved again.
    async fn halve_counts(&self) -> Result<(), TierError> {
        let hash = self.marks_hash();
        let mut cursor = Some(Cursor::first());
        while let Some(from) = cursor {
            let page = self.page(hash, from, self.table.fields).await?;
            cursor = page.next;
            let half = |(field, mark): (Vec<u8>, Vec<u8>)| {
                self.table.marks.worth(&mark).map(|count| (field, count / 2))
            };
            let halves: Vec<(Vec<u8>, u64)> = page.entries.into_iter().filter_map(half).collect();
            if !halves.is_empty() {
                self.call.run(hash, self.table.marks.set(&hash.name, &halves)).await?;
            }
        }
        Ok(())
    }

    async fn page(&self, hash: &Hash, from: Cursor, fields: usize) -> Result<HashPage, TierError> {
        HashPage::read(self.table, self.call.run(hash, from.command(hash, fields)).await?)
    }

    async fn count(&self) -> Result<u64, TierError> {
        let hash = self.rows_hash();
        self.table.read_count(&self.call.run(hash, hash.count_command()).await?)
    }

    async fn mark_count(&self) -> Result<u64, TierError> {
        let hash = self.marks_hash();
        self.table.read_count(&self.call.run(hash, hash.count_command()).await?)
    }

    fn rows_hash(&self) -> &Hash {
        &self.table.partition(self.partition).rows
    }

    fn marks_hash(&self) -> &Hash {
        &self.table.partition(self.partition).marks
    }
}

fn read_fields(table: &RedisTable, answer: Value) -> Result<Vec<Vec<u8>>, TierError> {
    let Value::Array(fields) = answer else { return Err(table.unexpected("HRANDFIELD")) };
    let field = |field| match field {
        Value::BulkString(field) => Ok(field),
        _ => Err(table.unexpected("HRANDFIELD")),
    };
    fields.into_iter().map(field).collect()
}
