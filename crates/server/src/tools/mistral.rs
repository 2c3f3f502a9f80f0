//! `[TOOL_CALLS][{"name": .., "arguments": ..}]`: Mistral's models up to 2024.

use super::call_markup::CallMarkup;

pub const MARKUP: CallMarkup = CallMarkup {
    open: "[TOOL_CALLS]",
    skipped: &['[', ','],
    close: "]",
    before_all: "[",
    between: ", ",
    after_all: "]",
    ..CallMarkup::NONE
};

/// Later ones write the name before `[ARGS]`, outside the JSON.
pub fn is_in(template: &str) -> bool {
    template.contains(MARKUP.open) && !template.contains("[ARGS]")
}
