//! `<tool_call>{"name": .., "arguments": ..}</tool_call>`: Hermes, Qwen, and what is used for
//! models whose template knows no tools.

use super::frame::Frame;

pub const FRAME: Frame = Frame {
    open: "<tool_call>",
    skipped: &[],
    close: "</tool_call>",
    arguments_key: "arguments",
    before_all: "",
    before_each: "<tool_call>\n",
    between: "\n",
    after_each: "\n</tool_call>",
    after_all: "",
};

/// Qwen's coder models write `<function=..>` inside the same tags, which is not JSON.
pub fn is_in(template: &str) -> bool {
    template.contains(FRAME.open) && !template.contains("<function=")
}
