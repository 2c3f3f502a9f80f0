//! The configuration that a command is about.

use std::path::Path;
use std::thread;

use anyhow::Result;
use terrace_embedding::PsConfig;

use crate::ps_source::PsSource;

/// Says on standard error what is not as its writer may think.
pub fn read_ps_file(path: &Path) -> Result<PsConfig> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (config, warnings) = PsSource::File(path.to_owned()).read(cores)?;
    for warning in warnings {
        eprintln!("warning: {}: {warning}", path.display());
    }
    Ok(config)
}
