//! Samples as lines of a table with a head; several keys of a slot stand between `|`.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};

use super::column_roles::{ColumnRoles, NamedColumns};
use super::sample_builder::SampleBuilder;
use super::sample_file::SampleFile;

pub struct CsvSamples {
    reader: csv::Reader<File>,
    bytes: u64,
    columns: Vec<String>,
    roles: ColumnRoles,
    record: csv::StringRecord,
}

impl CsvSamples {
    pub fn open(
        file: File,
        path: &Path,
        named: &NamedColumns,
        builder: &SampleBuilder,
    ) -> Result<Self> {
        let bytes = file.metadata()?.len();
        let is_tsv = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("tsv"));
        let mut options = csv::ReaderBuilder::new();
        options.delimiter(if is_tsv { b'\t' } else { b',' }).trim(csv::Trim::All);
        let mut reader = options.from_reader(file);
        let columns: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
        let roles = named.clone().completed(path)?.find(&columns, builder.dense(), builder.slots());
        let record = csv::StringRecord::new();
        Ok(CsvSamples { reader, bytes, columns, roles: roles?, record })
    }

    fn push(&self, builder: &mut SampleBuilder) -> Result<()> {
        let cell = |at: usize| self.record.get(at).unwrap_or_default();
        let number = |at: &usize| -> Result<f32> {
            let text = cell(*at);
            // A feature that is not known is 0, as NVTabular fills it.
            let number = if text.is_empty() { Ok(0.0) } else { text.parse() };
            number.with_context(|| format!("{text:?} in column {} is no number", self.columns[*at]))
        };
        let keys = |at: &usize| -> Result<Vec<i64>> {
            let text = cell(*at);
            let keys = text.trim_matches(['[', ']']).split(['|', ' ', ';', ',']);
            let keys = keys.filter(|key| !key.is_empty()).map(str::parse);
            keys.collect::<Result<_, _>>().with_context(|| {
                format!("{text:?} in column {} are no keys: 1|2|3", self.columns[*at])
            })
        };
        let dense = self.roles.dense.iter().map(number).collect::<Result<Vec<f32>>>()?;
        let slots = self.roles.slots.iter().map(keys).collect::<Result<Vec<Vec<i64>>>>()?;
        let label = self.roles.label.as_ref().map(number).transpose()?;
        builder.push(&dense, slots.iter().map(Vec::as_slice), label)
    }
}

impl SampleFile for CsvSamples {
    fn fill(&mut self, builder: &mut SampleBuilder, most: usize) -> Result<()> {
        while builder.len() < most {
            if !self.reader.read_record(&mut self.record).context("cannot read on")? {
                return Ok(());
            }
            let line = self.record.position().map_or(0, csv::Position::line);
            self.push(builder).with_context(|| format!("line {line}"))?;
        }
        Ok(())
    }

    fn progress(&self) -> (u64, u64) {
        (self.reader.position().byte(), self.bytes)
    }
}
