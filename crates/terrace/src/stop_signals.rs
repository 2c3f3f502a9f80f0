//! Ctrl-C and SIGTERM: the first asks the server to stop and sets it a deadline, the second ends
//! the process at once.
//!
//! This runs on threads of its own, and ends the process without asking anybody, so that it holds
//! whatever the server's threads do. What C libraries do at exit is left out then: a GPU's driver
//! would be taken apart while the engine still uses it.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::exit;
use tokio::sync::oneshot;

/// How long the last line may take: nobody may be reading it.
const LAST_LINE: Duration = Duration::from_millis(200);

/// What a shell reports for a program that a signal has ended is this plus the signal.
const SIGNAL_STATUS: i32 = 128;

/// From now on signals no longer end the process by themselves. What is returned is ready after the
/// first; `deadline` later the process ends, with status 0 as requested.
pub fn watch(deadline: Duration) -> io::Result<oneshot::Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (stop, stopped) = oneshot::channel();
    spawn("terrace-signals", move || {
        let mut signals = signals.forever();
        signals.next();
        // The receiver is gone when the server has ended by itself.
        let _ = stop.send(());
        let late = spawn("terrace-deadline", move || {
            thread::sleep(deadline);
            let seconds = deadline.as_secs();
            end(format!("stopped after {seconds} s with work under way"), 0);
        });
        if let Err(error) = late {
            end(format!("cannot wait for running requests: {error}"), 1);
        }
        if let Some(signal) = signals.next() {
            let line = "stopped at once by a second signal; running requests are cut off";
            end(line.to_owned(), SIGNAL_STATUS + signal);
        }
    })?;
    Ok(stopped)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

fn end(line: String, status: i32) {
    let (written, is_written) = mpsc::channel();
    // If it cannot be said, it is not said.
    let _ = spawn("terrace-last-line", move || {
        let _ = writeln!(io::stderr(), "{line}");
        let _ = written.send(());
    });
    let _ = is_written.recv_timeout(LAST_LINE);
    exit(status);
}
