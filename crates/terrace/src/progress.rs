//! A bar for what takes a while. It goes to standard error, and shows only on a terminal.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over a model's layers.
pub fn layers(what: &'static str, total: usize) -> ProgressBar {
    let template = "{msg} [{bar:32}] layer {pos} of {len}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(total as u64).with_style(style.progress_chars("=> ")).with_message(what)
}

/// A bar over a known number of bytes.
pub fn bytes(what: impl Into<Cow<'static, str>>, total: u64) -> ProgressBar {
    let template = "{msg} [{bar:32}] {bytes} of {total_bytes}, {bytes_per_sec}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_message(what)
}

/// A bar over rows of a table; there may be more or fewer than was thought.
pub fn rows(what: impl Into<Cow<'static, str>>, total: u64) -> ProgressBar {
    let template = "{msg} [{bar:32}] {human_pos} of {human_len} rows, {per_sec}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_message(what)
}

/// A bar over models that are loaded; its message is the one under way.
pub fn models(total: usize) -> ProgressBar {
    let template = "loading models [{bar:32}] {pos} of {len} {msg}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(total as u64).with_style(style.progress_chars("=> "))
}

/// A bar over a file of samples, in bytes or rows.
pub fn samples(what: String, total: u64) -> ProgressBar {
    let template = "{msg} [{bar:32}] {percent}%, {elapsed} so far, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(total).with_style(style.progress_chars("=> ")).with_message(what)
}

/// A bar over texts that are read; it grows with each as it is submitted.
pub fn texts(what: &'static str) -> ProgressBar {
    let template = "{msg} [{bar:32}] {pos} of {len} texts, {elapsed} so far, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    let bar = ProgressBar::new(0).with_style(style.progress_chars("=> ")).with_message(what);
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// A bar over things that are done one after the other.
pub fn counted(what: &'static str, things: &str, total: usize) -> ProgressBar {
    let template = format!(
        "{{msg}} [{{bar:32}}] {{human_pos}} of {{human_len}} {things}, {{elapsed}} so far, \
         {{eta}} left"
    );
    let style = ProgressStyle::with_template(&template).expect("the names are constants");
    ProgressBar::new(total as u64).with_style(style.progress_chars("=> ")).with_message(what)
}

/// A bar over steps of training, with what they say of themselves.
pub fn steps(total: u64) -> ProgressBar {
    let template = "tuning [{bar:32}] step {human_pos} of {human_len}, {msg}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(total).with_style(style.progress_chars("=> "))
}
