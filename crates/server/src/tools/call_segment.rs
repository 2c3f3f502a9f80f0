//! A part of an output that may have calls in it: text, or some of a call.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(String),
    /// A call begins; its arguments follow.
    Call {
        name: String,
    },
    /// The next piece of the last call's arguments.
    Arguments(String),
}
