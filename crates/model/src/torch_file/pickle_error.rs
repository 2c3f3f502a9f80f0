//! Why a pickle is not data, or not whole.

#[derive(Debug, thiserror::Error)]
pub enum PickleError {
    #[error("its pickle ends at byte {at}, in the middle of a value")]
    Truncated { at: usize },
    #[error("its pickle has the operation {opcode:#04x} at byte {at}, which is not known here")]
    Operation { opcode: u8, at: usize },
    /// A name that Python would import and call.
    #[error(
        "it refers to {name}, which is not data; nothing of a file is executed. If you trust it, \
         load it with torch.load and save its state_dict() alone"
    )]
    NotData { name: String },
    #[error("its pickle has more than {limit} {what}")]
    TooMany { what: &'static str, limit: usize },
    #[error("its pickle is broken at byte {at}: {problem}")]
    Broken { problem: String, at: usize },
    #[error("its pickle has {what} where a value should be")]
    NotAValue { what: String },
    #[error("storage {key:?}: {problem}")]
    Storage { key: String, problem: String },
}
