//! A conversation written out by a model's chat template, off the async threads.

use std::sync::Arc;

use terrace_model::RenderOptions;

use crate::api_error::ApiResult;
use crate::app_state::AppState;
use crate::bounded_work::off_thread;
use crate::chat::conversation::Conversation;
use crate::language::ServedModel;

pub async fn rendered_prompt(
    state: &AppState,
    model: &Arc<ServedModel>,
    conversation: Conversation,
    options: RenderOptions,
) -> ApiResult<String> {
    let model = Arc::clone(model);
    let held = state.memory.for_prompt(conversation.bytes()).await?;
    off_thread(move || {
        let _held = held;
        model.render(&conversation, &options)
    })
    .await
}
