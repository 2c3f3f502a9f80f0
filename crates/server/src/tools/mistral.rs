//! `[TOOL_CALLS][{"name": .., "arguments": ..}]`: Mistral's models up to 2024.

use super::frame::Frame;

pub const FRAME: Frame = Frame {
    open: "[TOOL_CALLS]",
    skipped: &['[', ','],
    close: "]",
    arguments_key: "arguments",
    before_all: "[",
    before_each: "",
    between: ", ",
    after_each: "",
    after_all: "]",
};

/// Later ones write the name before `[ARGS]`, outside the JSON.
pub fn is_in(template: &str) -> bool {
    template.contains(FRAME.open) && !template.contains("[ARGS]")
}
