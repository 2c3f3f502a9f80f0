//! Functions that a model may call: how they are offered to it, and how its calls are read.
//!
//! A family of models has its own way to write a call; [`ToolFormat`] knows them, and which one a
//! model was trained on is read off its chat template. A required call is held to a grammar, so it
//! always parses; one that may come is read from what the model writes.

mod call_markup;
mod call_parser;
mod call_reader;
mod call_segment;
mod hermes;
mod llama;
mod mistral;
mod repeated_calls;
mod tool_format;
mod tool_messages;
mod tool_offer;
mod tool_prompt;

pub use call_parser::CallParser;
pub use call_segment::CallSegment;
pub use repeated_calls::RepeatedCalls;
pub use tool_format::AllowedCalls;
#[cfg(test)]
pub use tool_format::ToolFormat;
pub use tool_offer::ToolOffer;
pub use tool_prompt::ToolPrompt;
