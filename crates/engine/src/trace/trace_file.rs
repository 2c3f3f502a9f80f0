//! A file of trace events in Chrome's JSON format, written by a thread of its own.
//!
//! It is a list that is closed when the trace ends; after a crash the end is missing, which its
//! readers put up with.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::error::Error;

pub(crate) struct TraceFile {
    /// `None` once it is closed.
    events: Option<Sender<Value>>,
    thread: Option<JoinHandle<()>>,
}

/// What was written is in the file after so long.
const FLUSH_AFTER: Duration = Duration::from_secs(1);

impl TraceFile {
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let fault = |error: std::io::Error| Error::Trace {
            path: path.to_owned(),
            message: error.to_string(),
        };
        let file = File::create(path).map_err(fault)?;
        let (events, queue) = channel();
        let written = path.to_owned();
        let body = move || {
            if let Err(error) = write(&queue, file) {
                tracing::error!(%error, path = %written.display(), "the trace ends here");
            }
        };
        let thread = std::thread::Builder::new().name("trace".into()).spawn(body);
        Ok(TraceFile { events: Some(events), thread: Some(thread.map_err(fault)?) })
    }

    /// Never waits for the disk.
    pub(crate) fn add(&self, event: Value) {
        if let Some(events) = &self.events {
            // A thread that could not write has said so.
            let _ = events.send(event);
        }
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        self.events = None;
        if let Some(thread) = self.thread.take() {
            // A panic was logged where it happened.
            let _ = thread.join();
        }
    }
}

fn write(events: &Receiver<Value>, file: File) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    let mut before = "[\n";
    loop {
        match events.recv_timeout(FLUSH_AFTER) {
            Ok(event) => {
                write!(file, "{before}{event}")?;
                before = ",\n";
            }
            Err(RecvTimeoutError::Timeout) => file.flush()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let end = if before == "[\n" { "[]\n" } else { "\n]\n" };
    file.write_all(end.as_bytes())?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trace_is_a_list_of_its_events() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.json");
        for count in [0, 1, 3] {
            let file = TraceFile::create(&path).expect("a file");
            (0..count).for_each(|number| file.add(json!({ "ts": number })));
            drop(file);
            let text = std::fs::read_to_string(&path).expect("a trace");
            let events: Vec<Value> = serde_json::from_str(&text).expect("JSON");
            assert_eq!(events.len(), count);
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error() {
        let Err(error) = TraceFile::create(Path::new("/no/such/folder/trace.json")) else {
            panic!("it was made");
        };
        assert!(error.to_string().contains("/no/such/folder/trace.json"), "{error}");
    }
}
