//! An engine on its own thread: what callers hold, and how events come back to them.

mod board;
mod command;
mod engine_handle;
mod engine_link;
mod engine_thread;
mod shutdown;
mod token_receiver;

pub use engine_handle::EngineHandle;
pub use shutdown::Shutdown;
pub use token_receiver::{ChoiceCanceller, TokenReceiver};
