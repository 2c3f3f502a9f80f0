//! Bars for what takes a while. They go to standard error, and show only on a terminal.

use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over a known number of bytes.
pub fn bytes(what: impl Into<Cow<'static, str>>, total: u64) -> ProgressBar {
    let template = "{msg} [{bar:32}] {bytes} of {total_bytes}, {bytes_per_sec}";
    ProgressBar::new(total).with_style(style(template)).with_message(what)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the template is a constant")
        .progress_chars("=> ")
}
