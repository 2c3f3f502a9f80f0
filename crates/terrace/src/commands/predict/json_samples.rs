//! Samples as lines of JSON: one sample a line, or a request of HugeCTR's clients.
//!
//! `{"dense": [0.5, 1.0], "slots": [[1], [], [8, 9]], "label": 1}`, where a slot of one key may be
//! the key alone; or `{"DES": [..], "CATCOLUMN": [..], "ROWINDEX": [..]}` with any number of
//! samples.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use terrace_engine::predict::VcsrRequest;

use super::sample_builder::SampleBuilder;
use super::sample_file::SampleFile;

pub struct JsonSamples {
    reader: BufReader<File>,
    line: u64,
    read: u64,
    bytes: u64,
    text: String,
    /// A request that is a batch of its own, behind the samples before it.
    pending: Option<VcsrRequest>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Sample(SampleLine),
    Request(RequestLine),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SampleLine {
    #[serde(default)]
    dense: Vec<f32>,
    slots: Vec<Slot>,
    label: Option<f32>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Slot {
    One(i64),
    Many(Vec<i64>),
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct RequestLine {
    #[serde(default)]
    des: Vec<f32>,
    catcolumn: Vec<i64>,
    rowindex: Vec<i32>,
}

/// Of one line; a request of many samples.
const LINE_BYTES_MOST: u64 = 256 << 20;

impl JsonSamples {
    pub fn open(file: File) -> Result<Self> {
        let bytes = file.metadata()?.len();
        Ok(JsonSamples {
            reader: BufReader::new(file),
            line: 0,
            read: 0,
            bytes,
            text: String::new(),
            pending: None,
        })
    }

    fn push(&mut self, builder: &mut SampleBuilder) -> Result<()> {
        let line: Line = match serde_json::from_str(&self.text) {
            Ok(line) => line,
            Err(error) => bail!(
                "{error}; a line is {{\"dense\": [..], \"slots\": [..]}} or {{\"DES\": [..], \
                 \"CATCOLUMN\": [..], \"ROWINDEX\": [..]}}"
            ),
        };
        match line {
            Line::Sample(sample) => {
                let keys = |slot: &Slot| match slot {
                    Slot::One(key) => vec![*key],
                    Slot::Many(keys) => keys.clone(),
                };
                let slots: Vec<Vec<i64>> = sample.slots.iter().map(keys).collect();
                builder.push(&sample.dense, slots.iter().map(Vec::as_slice), sample.label)
            }
            Line::Request(RequestLine { des, catcolumn, rowindex }) => {
                let request = VcsrRequest { dense: des, keys: catcolumn, row_offsets: rowindex };
                self.pending = Some(request);
                Ok(())
            }
        }
    }
}

impl SampleFile for JsonSamples {
    fn fill(&mut self, builder: &mut SampleBuilder, most: usize) -> Result<()> {
        while builder.len() < most {
            if let Some(request) = self.pending.take_if(|_| builder.len() == 0) {
                return builder
                    .push_request(request)
                    .with_context(|| format!("line {}", self.line));
            }
            if self.pending.is_some() {
                return Ok(());
            }
            self.text.clear();
            let mut limited = std::io::Read::take(&mut self.reader, LINE_BYTES_MOST);
            let read = limited.read_line(&mut self.text).context("cannot read on")? as u64;
            if read == 0 {
                return Ok(());
            }
            self.line += 1;
            self.read += read;
            if read == LINE_BYTES_MOST && !self.text.ends_with('\n') {
                bail!("line {} has more than {LINE_BYTES_MOST} bytes; cut it", self.line);
            }
            if !self.text.trim().is_empty() {
                self.push(builder).with_context(|| format!("line {}", self.line))?;
            }
        }
        Ok(())
    }

    fn progress(&self) -> (u64, u64) {
        (self.read, self.bytes)
    }
}
