//! Segments of outputs, for the tests of those who write them.

use crate::chat::OutputSegment;

pub fn text(text: &str) -> OutputSegment {
    OutputSegment::Text(text.to_owned())
}

pub fn reasoning(text: &str) -> OutputSegment {
    OutputSegment::Reasoning(text.to_owned())
}

pub fn call(name: &str) -> OutputSegment {
    OutputSegment::Call { name: name.to_owned() }
}

pub fn arguments(text: &str) -> OutputSegment {
    OutputSegment::Arguments(text.to_owned())
}
