//! What holds an engine's thread: shared by its handles and by the receivers of its outputs.
//!
//! The last of them to go ends the thread and waits for it. A process that ended while the thread
//! still gives its device back would crash inside the driver.

use std::sync::mpsc::{SendError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use super::command::Command;
use super::shutdown::Shutdown;

pub(crate) struct EngineLink {
    commands: Sender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl EngineLink {
    pub(crate) fn new(commands: Sender<Command>, thread: JoinHandle<()>) -> Self {
        EngineLink { commands, thread: Mutex::new(Some(thread)) }
    }

    /// An error where the thread has ended.
    pub(crate) fn send(&self, command: Command) -> Result<(), SendError<Command>> {
        self.commands.send(command)
    }

    /// Waits until the thread has ended.
    pub(crate) fn stop(&self, how: Shutdown) {
        // A thread that has ended already needs no command.
        let _ = self.send(Command::Stop(how));
        // Held while waiting: whoever else stops it waits too.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A panic was logged where it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for EngineLink {
    /// Nobody waits for an output any more.
    fn drop(&mut self) {
        self.stop(Shutdown::Now);
    }
}
