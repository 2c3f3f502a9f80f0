//! A conversation to go on with: what is said, which tools there are, how to sample.

use std::sync::Arc;

use terrace_engine::guidance::{Grammar, GrammarRule};
use terrace_engine::text::{Prompt, TextRequest};
use terrace_model::{RenderOptions, SpecialTokens};

use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::chat::output_reader::OutputReader;
use crate::chat::reasoning_reader::{ReasoningReader, without_reasoning};
use crate::chat::rendered_prompt::rendered_prompt;
use crate::chat::{ChatOutputs, Conversation};
use crate::language::{RequestOptions, RequestOutputs, RouteDefaults, ServedModel};
use crate::middleware::RequestLog;
use crate::tools::{AllowedCalls, CallParser, ToolOffer};

#[derive(Debug)]
pub struct ChatRequest {
    pub conversation: Conversation,
    pub render: RenderOptions,
    pub offer: Option<ToolOffer>,
    pub options: RequestOptions,
}

impl ChatRequest {
    /// Renders the conversation and hands it to the engine. `defaults` is what the route does when
    /// nobody says anything.
    pub async fn start(
        self,
        state: &AppState,
        log: Arc<RequestLog>,
        defaults: RouteDefaults,
    ) -> ApiResult<ChatOutputs> {
        let Self { conversation, mut render, offer, options } = self;
        let choices = options.check_choices(1, &state.config.limits)?;
        let model = state.services.language.model(options.model.as_deref())?;
        render.tools = offer.as_ref().map(ToolOffer::described);
        let prompt = rendered_prompt(state, &model, conversation, render).await?;
        let thinks = model.thinks();
        // A grammar holds from the output's first token, so the model cannot think.
        let has_grammar =
            options.grammar.is_some() || offer.as_ref().is_some_and(ToolOffer::must_call);
        let prompt = if thinks && has_grammar { without_reasoning(prompt) } else { prompt };
        let reader = |_| {
            let calls = offer.as_ref().map(|offer| {
                CallParser::new(model.tool_prompt().format.markup(), offer.is_parallel())
            });
            OutputReader::new(thinks.then(|| ReasoningReader::after(&prompt)), calls)
        };
        let readers = (0..choices).map(reader).collect();
        let presets = &state.config.presets;
        let mut request = options.text_request(Prompt::Rendered(prompt), presets, defaults);
        if let Some(offer) = &offer {
            expect_calls(&mut request, &model, offer)?;
        }
        let served = Arc::clone(&model);
        let outputs = RequestOutputs::submit(state, log, served, vec![request], &options).await?;
        Ok(ChatOutputs::new(outputs, readers, model))
    }
}

/// Lets calls be seen. Holds the output to them if one must come, or if it has a grammar that they
/// would break.
fn expect_calls(
    request: &mut TextRequest,
    model: &ServedModel,
    offer: &ToolOffer,
) -> ApiResult<()> {
    let format = model.tool_prompt().format;
    // What begins the calls may be a token that is otherwise not shown.
    let open = model.special_token(format.markup().open);
    if open.is_some() {
        request.special = SpecialTokens::Keep;
    }
    let output = match (offer.must_call(), request.grammar.take()) {
        // The arguments of a call that must come are its grammar; some clients send both.
        (true, None | Some(Grammar { rule: GrammarRule::JsonSchema(_), .. })) => None,
        (true, Some(Grammar { option, .. })) => {
            let message = format!("tool_choice asks for a call and {option} for something else");
            return Err(ApiError::invalid("tool_choice", message));
        }
        (false, Some(Grammar { rule: GrammarRule::JsonSchema(schema), .. })) => Some(schema),
        (false, other) => {
            request.grammar = other;
            return Ok(());
        }
    };
    let functions = offer.functions();
    let allowed = AllowedCalls { functions, is_parallel: offer.is_parallel(), open, output };
    request.grammar = Some(Grammar { option: "tools", rule: format.calls(allowed) });
    Ok(())
}
