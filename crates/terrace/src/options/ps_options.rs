//! Which embedding tables are served, and what they may take.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::byte_size::ByteSize;
use crate::options::at_least_one;
use crate::ps_source::PsSource;

#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Parameter server")]
pub struct PsOptions {
    /// Serve the embedding tables of a HugeCTR configuration: a ps.json of any release, or a file
    /// with the same keys in TOML (FILE.toml). Models are served beside them only if they are
    /// named. In a settings file this may be a table, [ps], with the configuration itself.
    #[arg(long, value_name = "FILE")]
    pub ps: Option<PathBuf>,

    /// The longest that a look-up waits for Redis, in milliseconds. Left out: 500.
    #[arg(long, value_name = "MS", value_parser = at_least_one::<u64>)]
    ps_redis_time: Option<u64>,

    /// The longest that a look-up waits for the persistent level, in milliseconds. Left out: 2000.
    #[arg(long, value_name = "MS", value_parser = at_least_one::<u64>)]
    ps_read_time: Option<u64>,

    /// Threads that bring missing rows into hot caches, and as many that read the persistent level.
    /// Left out: one for each core.
    #[arg(long, value_name = "THREADS", value_parser = at_least_one::<usize>)]
    ps_threads: Option<usize>,

    /// A folder with RocksDB's library, looked into before the usual ones. Left out: the usual ones
    /// alone.
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    ps_libs: Vec<PathBuf>,

    /// Device memory that whole tables may take with placement = "auto". Left out: four fifths of
    /// what is free on a GPU, none on the CPU.
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub ps_device_budget: Option<ByteSize>,

    /// Host memory that whole tables may take with placement = "auto". Left out: half of what is
    /// available.
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub ps_ram_budget: Option<ByteSize>,

    /// The settings file's `[ps]`.
    #[arg(skip)]
    pub inline: Option<PsSource>,
}

const REDIS_MS: u64 = 500;
const READ_MS: u64 = 2_000;

impl PsOptions {
    /// Where the configuration is, if tables are to be served; options without it are refused.
    pub fn source(&self) -> Result<Option<PsSource>> {
        let source = self.ps.clone().map(PsSource::File).or_else(|| self.inline.clone());
        match (source, self.given()) {
            (Some(source), _) => Ok(Some(source)),
            (None, None) => Ok(None),
            (None, Some(option)) => bail!("{option} has nothing to act on; give --ps FILE too"),
        }
    }

    pub fn redis_time(&self) -> Duration {
        Duration::from_millis(self.ps_redis_time.unwrap_or(REDIS_MS))
    }

    pub fn read_time(&self) -> Duration {
        Duration::from_millis(self.ps_read_time.unwrap_or(READ_MS))
    }

    pub fn threads(&self, cores: usize) -> usize {
        self.ps_threads.unwrap_or(cores)
    }

    pub fn library_folders(&self) -> Vec<PathBuf> {
        self.ps_libs.clone()
    }

    /// The first option that needs a configuration.
    fn given(&self) -> Option<&'static str> {
        let options = [
            ("--ps-redis-time", self.ps_redis_time.is_some()),
            ("--ps-read-time", self.ps_read_time.is_some()),
            ("--ps-threads", self.ps_threads.is_some()),
            ("--ps-libs", !self.ps_libs.is_empty()),
            ("--ps-device-budget", self.ps_device_budget.is_some()),
            ("--ps-ram-budget", self.ps_ram_budget.is_some()),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_without_a_configuration_is_refused() {
        let options = PsOptions { ps_threads: Some(2), ..PsOptions::default() };
        let error = options.source().unwrap_err().to_string();
        assert_eq!(error, "--ps-threads has nothing to act on; give --ps FILE too");
        assert_eq!(PsOptions::default().source().unwrap(), None);
        let given = PsOptions { ps: Some("ps.json".into()), ..options };
        assert_eq!(given.source().unwrap(), Some(PsSource::File("ps.json".into())));
    }
}
