//! Where predictions go: a line of numbers for each sample.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

pub struct PredictionWriter {
    to: To,
    text: String,
}

enum To {
    Standard(io::BufWriter<io::Stdout>),
    /// Beside where it goes, until all is written.
    File {
        written: io::BufWriter<NamedTempFile>,
        path: PathBuf,
    },
}

impl PredictionWriter {
    /// `None`: standard output.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let to = match path {
            None => To::Standard(io::BufWriter::new(io::stdout())),
            Some(path) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let written = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
                let written =
                    written.with_context(|| format!("cannot write {}", path.display()))?;
                To::File { written: io::BufWriter::new(written), path: path.to_owned() }
            }
        };
        Ok(PredictionWriter { to, text: String::new() })
    }

    /// `width` numbers for each sample.
    pub fn write(&mut self, numbers: &[f32], width: usize) -> Result<()> {
        self.text.clear();
        for sample in numbers.chunks(width.max(1)) {
            for (at, number) in sample.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                write!(self.text, "{comma}{number}").context("cannot write a number")?;
            }
            self.text.push('\n');
        }
        let text = self.text.as_bytes();
        match &mut self.to {
            To::Standard(out) => Ok(out.write_all(text)?),
            To::File { written, path } => {
                written.write_all(text).with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }

    pub fn finish(self) -> Result<()> {
        match self.to {
            To::Standard(mut out) => Ok(out.flush()?),
            To::File { written, path } => {
                let failed = || format!("cannot write {}", path.display());
                let file = written.into_inner().map_err(io::IntoInnerError::into_error);
                file.with_context(failed)?.persist(&path).with_context(failed)?;
                Ok(())
            }
        }
    }
}
