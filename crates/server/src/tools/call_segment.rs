//! A segment of an output that may have calls in it: text, or some of a call.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallSegment {
    Text(String),
    /// A call begins; its arguments follow.
    Call {
        name: String,
    },
    /// More of the last call's arguments.
    Arguments(String),
}
