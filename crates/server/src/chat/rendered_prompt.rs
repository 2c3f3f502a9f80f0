//! A conversation written out by a model's chat template, off the async threads.

use std::sync::Arc;

use terrace_model::RenderOptions;

use crate::api_error::ApiError;
use crate::bounded_work::off_thread;
use crate::chat::conversation::Conversation;
use crate::language::ServedModel;
use crate::state::AppState;

pub async fn rendered_prompt(
    state: &AppState,
    model: &Arc<ServedModel>,
    conversation: Conversation,
    options: RenderOptions,
) -> Result<String, ApiError> {
    let model = Arc::clone(model);
    let held = state.memory.for_prompt(conversation.bytes()).await?;
    off_thread(move || {
        let _held = held;
        model.render(&conversation, &options)
    })
    .await
}
