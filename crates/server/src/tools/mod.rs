//! Functions that a model may call: how they are offered to it, and how its calls are read.
//!
//! A family of models has its own way to write a call; [`ToolFormat`] knows them, and which one a
//! model was trained on is read off its chat template. A call that must come is asked for with a
//! grammar, so it always parses; one that may come is read from what the model writes.

mod answer_reader;
mod call_parser;
mod call_reader;
mod hermes;
mod llama;
mod mistral;
mod tool_format;
mod tool_messages;
mod tool_offer;
mod tool_style;

pub use answer_reader::AnswerReader;
pub use call_parser::Part;
pub use tool_format::AllowedCalls;
pub use tool_offer::ToolOffer;
pub use tool_style::ToolStyle;
