//! `{"name": .., "parameters": ..}` and nothing around it: Llama 3.1 and later.

use super::call_markup::CallMarkup;

pub const MARKUP: CallMarkup = CallMarkup {
    skipped: &[';', ','],
    arguments_key: "parameters",
    between: "; ",
    ..CallMarkup::NONE
};

pub fn is_in(template: &str) -> bool {
    template.contains("ipython") && template.contains("\"parameters\"")
}
