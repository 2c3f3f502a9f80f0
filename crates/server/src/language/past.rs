//! The handle that a request goes on from.
//!
//! A prompt that is a text or ids follows the handle's tokens. A conversation is written out whole
//! and must begin with them; what is left of it follows.

use serde::Serialize;
use terrace_engine::text::{Prompt, TextRequest};
use terrace_engine::{HandleId, HandleSummary, TokenId};
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::language::{RequestOptions, ServedModel};

pub struct Past {
    id: HandleId,
    name: String,
}

/// The handle that a response goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct UsedHandle {
    /// The handle's id.
    pub handle: String,
    /// Whether another class of arithmetic has computed the handle, such as a GPU for a CPU: the
    /// output may differ in the last bits from one that is computed here from its first token.
    pub crosses_arithmetic: bool,
}

impl Past {
    /// `None` where the request names no handle.
    pub fn find(
        state: &AppState,
        model: &ServedModel,
        options: &RequestOptions,
    ) -> ApiResult<Option<Self>> {
        let Some(handle) = &options.handle else { return Ok(None) };
        if options.generation.prompt_logprobs.is_some() {
            let message = "prompt_logprobs cannot be given with kv_cache.handle: the handle's \
                           tokens are not computed again";
            return Err(ApiError::invalid("prompt_logprobs", message));
        }
        let owner = options.caller.owner(&state.config.api_keys);
        let found = model.engine().kv_handles().get(handle, owner.as_deref())?;
        let HandleSummary { id, name, .. } = found;
        Ok(Some(Self { id, name }))
    }

    pub fn id(&self) -> HandleId {
        self.id
    }

    /// Lets the requests go on from here. Tokenises conversations, so it blocks.
    pub fn begin(
        &self,
        model: &ServedModel,
        mut requests: Vec<TextRequest>,
    ) -> ApiResult<Vec<TextRequest>> {
        for request in &mut requests {
            request.past = Some(self.id);
            if let Prompt::Rendered(_) = request.prompt {
                let conversation = std::mem::replace(&mut request.prompt, Prompt::Tokens(vec![]));
                let conversation = model.engine().tokenise(conversation)?;
                request.prompt = Prompt::Tokens(self.rest_of(model, conversation)?);
            }
        }
        Ok(requests)
    }

    /// The conversation without the handle's tokens, with which it must begin.
    fn rest_of(
        &self,
        model: &ServedModel,
        mut conversation: Vec<TokenId>,
    ) -> ApiResult<Vec<TokenId>> {
        let tokens = model.engine().kv_handles().tokens(self.id)?;
        match first_difference(&tokens, &conversation) {
            None => Ok(conversation.split_off(tokens.len())),
            Some(position) => {
                let text = |ids: &[TokenId]| match ids.get(position) {
                    Some(&id) => {
                        let text = model.decode(&[id]).unwrap_or_default();
                        format!("token {id} ({text:?})")
                    }
                    None => "no token".to_owned(),
                };
                let message = format!(
                    "the conversation does not begin with handle {:?}: at position {position} the \
                     handle has {} and the conversation {}; the handle has {} tokens, the \
                     conversation {}; send the messages that the handle was made of first, \
                     unchanged and with the same tools, and more after them",
                    self.name,
                    text(&tokens),
                    text(&conversation),
                    tokens.len(),
                    conversation.len()
                );
                Err(ApiError::conflict("prefix_mismatch", message))
            }
        }
    }
}

/// Where a conversation stops being a longer one than what it goes on from, if it does.
fn first_difference(past: &[TokenId], conversation: &[TokenId]) -> Option<usize> {
    let same = past.iter().zip(conversation).take_while(|(a, b)| a == b).count();
    (same < past.len() || conversation.len() == past.len()).then_some(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_goes_on_after_what_it_begins_with() {
        assert_eq!(first_difference(&[1, 2], &[1, 2, 3]), None);
        assert_eq!(first_difference(&[1, 2], &[1, 3, 3]), Some(1));
        assert_eq!(first_difference(&[1, 2], &[1]), Some(1));
        assert_eq!(first_difference(&[1, 2], &[]), Some(0));
        assert_eq!(first_difference(&[1, 2], &[1, 2]), Some(2));
    }
}
