//! Conversations as text.
pub struct ChatTemplate {}
