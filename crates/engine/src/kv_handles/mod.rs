//! KV caches that users hold by name: made of a prompt or a response, kept over restarts, and gone
//! on from.

mod handle_identity;
mod handle_labels;
mod handle_prompt;
mod handle_summary;
mod memory_handles;
mod page_check;
mod service;

pub(crate) use handle_identity::HandleIdentity;
pub use handle_labels::HandleLabels;
pub use handle_prompt::HandlePrompt;
pub use handle_summary::HandleSummary;
pub use service::KvHandles;
