//! Samples of a Parquet file as NVTabular writes it: a column for each feature, where several keys
//! of a slot are a list.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;

use super::column_roles::{ColumnRoles, NamedColumns};
use super::sample_builder::SampleBuilder;
use super::sample_file::SampleFile;

pub struct ParquetSamples {
    rows: RowIter<'static>,
    roles: ColumnRoles,
    read: u64,
    count: u64,
}

impl ParquetSamples {
    pub fn open(
        file: File,
        path: &Path,
        named: &NamedColumns,
        builder: &SampleBuilder,
    ) -> Result<Self> {
        let reader = SerializedFileReader::new(file).context("it is no Parquet file")?;
        let metadata = reader.metadata().file_metadata();
        let count = u64::try_from(metadata.num_rows()).unwrap_or(0);
        let fields = metadata.schema().get_fields().iter();
        let columns: Vec<String> = fields.map(|field| field.name().to_owned()).collect();
        let roles = named.clone().completed(path)?.find(&columns, builder.dense(), builder.slots());
        let rows = RowIter::from_file_into(Box::new(reader));
        Ok(ParquetSamples { rows, roles: roles?, read: 0, count })
    }

    fn push(&self, row: &[(String, Field)], builder: &mut SampleBuilder) -> Result<()> {
        let of_column = |at: &usize| format!("column {}", row[*at].0);
        let number = |at: &usize| number(&row[*at].1).with_context(|| of_column(at));
        let keys = |at: &usize| keys(&row[*at].1).with_context(|| of_column(at));
        let dense = self.roles.dense.iter().map(number).collect::<Result<Vec<f32>>>()?;
        let slots = self.roles.slots.iter().map(keys).collect::<Result<Vec<Vec<i64>>>>()?;
        let label = self.roles.label.as_ref().map(number).transpose()?;
        builder.push(&dense, slots.iter().map(Vec::as_slice), label)
    }
}

impl SampleFile for ParquetSamples {
    fn fill(&mut self, builder: &mut SampleBuilder, most: usize) -> Result<()> {
        while builder.len() < most {
            let Some(row) = self.rows.next() else { return Ok(()) };
            let row = row.with_context(|| format!("cannot read row {}", self.read))?;
            let row = row.into_columns();
            self.push(&row, builder).with_context(|| format!("row {}", self.read))?;
            self.read += 1;
        }
        Ok(())
    }

    fn progress(&self) -> (u64, u64) {
        (self.read, self.count)
    }
}

/// A feature that is not known is 0.
fn number(field: &Field) -> Result<f32> {
    Ok(match field {
        Field::Null => 0.0,
        Field::Float(number) => *number,
        Field::Double(number) => *number as f32,
        Field::Float16(number) => number.to_f32(),
        Field::Bool(is) => f32::from(u8::from(*is)),
        other => key(other)? as f32,
    })
}

/// A slot of several keys is a list; of one key, a number.
fn keys(field: &Field) -> Result<Vec<i64>> {
    match field {
        Field::Null => Ok(Vec::new()),
        Field::ListInternal(list) => list.elements().iter().map(key).collect(),
        other => Ok(vec![key(other)?]),
    }
}

fn key(field: &Field) -> Result<i64> {
    Ok(match field {
        Field::Byte(key) => i64::from(*key),
        Field::Short(key) => i64::from(*key),
        Field::Int(key) => i64::from(*key),
        Field::Long(key) => *key,
        Field::UByte(key) => i64::from(*key),
        Field::UShort(key) => i64::from(*key),
        Field::UInt(key) => i64::from(*key),
        Field::ULong(key) => i64::try_from(*key).context("a key above 64 bits with a sign")?,
        other => bail!("{other} is no number of the kind that is taken here"),
    })
}
