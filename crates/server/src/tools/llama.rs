//! `{"name": .., "parameters": ..}` and nothing around it: Llama 3.1 and later.

use super::frame::Frame;

pub const FRAME: Frame = Frame {
    open: "",
    skipped: &[';', ','],
    close: "",
    arguments_key: "parameters",
    before_all: "",
    before_each: "",
    between: "; ",
    after_each: "",
    after_all: "",
};

pub fn is_in(template: &str) -> bool {
    template.contains("ipython") && template.contains("\"parameters\"")
}
