//! What is logged, and how it looks.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

#[derive(Args, Debug)]
#[command(next_help_heading = "Log")]
pub struct LogOptions {
    /// How much to log: error, warn, info, debug or trace; for one part alone, for example
    /// warn,terrace_server=debug.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: EnvFilter,

    /// How a log line looks. The log goes to standard error.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line, for machines.
    Json,
}

/// Warnings and errors alone, for commands whose output is the point.
pub fn start_quiet_log() {
    LogOptions { log_level: EnvFilter::new("warn"), log_format: LogFormat::Text }.start();
}

impl LogOptions {
    /// Starts the log of the process; call it once.
    pub fn start(&self) {
        let log = tracing_subscriber::fmt()
            .with_env_filter(self.log_level.clone())
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr);
        match self.log_format {
            LogFormat::Text => log.with_target(false).init(),
            LogFormat::Json => log.json().init(),
        }
    }
}
