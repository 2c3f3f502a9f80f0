//! Opens files of samples of every form.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::column_roles::NamedColumns;
use super::csv_samples::CsvSamples;
use super::json_samples::JsonSamples;
use super::parquet_samples::ParquetSamples;
use super::sample_builder::SampleBuilder;
use super::sample_file::SampleFile;

/// By its name's ending, or, where that says nothing, by its first bytes.
pub fn open(
    path: &Path,
    columns: &NamedColumns,
    builder: &SampleBuilder,
) -> Result<Box<dyn SampleFile>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    let opened: Result<Box<dyn SampleFile>> = match ending.to_ascii_lowercase().as_str() {
        "parquet" => ParquetSamples::open(file, path, columns, builder).map(boxed),
        "csv" | "tsv" | "txt" => CsvSamples::open(file, path, columns, builder).map(boxed),
        "json" | "jsonl" | "ndjson" => JsonSamples::open(file).map(boxed),
        _ => {
            let mut reader = BufReader::new(&file);
            match reader.fill_buf()? {
                [b'P', b'A', b'R', b'1', ..] => {
                    ParquetSamples::open(file, path, columns, builder).map(boxed)
                }
                [b'{', ..] => bail!("call it .jsonl: it looks like lines of JSON"),
                _ => bail!("its name should end in .csv, .tsv, .jsonl or .parquet"),
            }
        }
    };
    opened.with_context(|| format!("cannot read samples from {}", path.display()))
}

fn boxed<T: SampleFile + 'static>(file: T) -> Box<dyn SampleFile> {
    Box::new(file)
}
