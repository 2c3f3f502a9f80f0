//! What both routes read: the conversation, its tools, and what the output must be.

use terrace_model::RenderOptions;

use super::output_fields::OutputFields;
use super::tools::take_offer;
use super::turns::Turns;
use crate::api_error::ApiResult;
use crate::chat::Conversation;
use crate::fields::Fields;
use crate::tools::ToolOffer;

#[derive(Debug)]
pub struct MessagesPrompt {
    pub conversation: Conversation,
    pub render: RenderOptions,
    pub offer: Option<ToolOffer>,
    pub output: OutputFields,
}

impl MessagesPrompt {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        let turns = Turns::take(fields)?;
        let is_prefilled = turns.is_prefilled()?;
        let conversation = turns.into_conversation()?;
        let offer = take_offer(fields)?;
        let mut output = OutputFields::take(fields)?;
        let render = RenderOptions {
            add_generation_prompt: !is_prefilled,
            continue_final_message: is_prefilled,
            tools: None,
            extra: std::mem::take(&mut output.variables),
        };
        // Every prefix is cached anyway, and there is one speed: what the machine can do.
        fields.ignore(&["cache_control", "speed"]);
        fields.refuse("mcp_servers", "this server does not reach the network")?;
        fields.refuse("context_management", "messages are given to the model as they are")?;
        Ok(Self { conversation, render, offer, output })
    }
}
