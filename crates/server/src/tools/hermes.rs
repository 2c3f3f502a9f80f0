//! `<tool_call>{"name": .., "arguments": ..}</tool_call>`: Hermes, Qwen, and what is used for
//! models whose template knows no tools.

use super::call_markup::CallMarkup;

pub const MARKUP: CallMarkup = CallMarkup {
    open: "<tool_call>",
    close: "</tool_call>",
    before_each: "<tool_call>\n",
    between: "\n",
    after_each: "\n</tool_call>",
    ..CallMarkup::NONE
};

/// Qwen's coder models write `<function=..>` inside the same tags, which is not JSON.
pub fn is_in(template: &str) -> bool {
    template.contains(MARKUP.open) && !template.contains("<function=")
}
