//! Whose request it is, as far as its key says.

/// Which of the server's keys a request came with; `None` where the server has none. What one
/// caller stores here, another does not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller(pub Option<usize>);
