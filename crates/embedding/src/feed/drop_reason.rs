//! Why nothing of a message was applied.

use super::dense_message::DenseFault;
use super::update_message::MessageFault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It has a Kafka key, and updates have none.
    Keyed,
    Short,
    Magic,
    /// A value's size is none that a row can have.
    ValueBytes,
    Trailing,
    /// Rows of another dimension than the table's.
    Dim,
    /// No table and no model is known for the topic.
    UnknownTopic,
    /// Of dense weights: an unknown format, or a header that contradicts itself or the piece.
    DensePart,
    /// Of dense weights: more bytes than are allowed.
    DenseBytes,
    /// Of dense weights: the parts do not have the hash that they announce.
    DenseHash,
}

impl DropReason {
    pub const ALL: [DropReason; 10] = [
        DropReason::Keyed,
        DropReason::Short,
        DropReason::Magic,
        DropReason::ValueBytes,
        DropReason::Trailing,
        DropReason::Dim,
        DropReason::UnknownTopic,
        DropReason::DensePart,
        DropReason::DenseBytes,
        DropReason::DenseHash,
    ];

    /// For metrics.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Keyed => "keyed",
            DropReason::Short => "short",
            DropReason::Magic => "magic",
            DropReason::ValueBytes => "value_bytes",
            DropReason::Trailing => "trailing",
            DropReason::Dim => "dim",
            DropReason::UnknownTopic => "unknown_topic",
            DropReason::DensePart => "dense_part",
            DropReason::DenseBytes => "dense_bytes",
            DropReason::DenseHash => "dense_hash",
        }
    }
}

impl From<MessageFault> for DropReason {
    fn from(fault: MessageFault) -> Self {
        match fault {
            MessageFault::Short { .. } => DropReason::Short,
            MessageFault::Magic { .. } => DropReason::Magic,
            MessageFault::ValueBytes { .. } => DropReason::ValueBytes,
            MessageFault::Trailing { .. } => DropReason::Trailing,
        }
    }
}

impl From<DenseFault> for DropReason {
    fn from(fault: DenseFault) -> Self {
        match fault {
            DenseFault::Short { .. } => DropReason::Short,
            DenseFault::Magic { .. } => DropReason::Magic,
            DenseFault::Format { .. }
            | DenseFault::Parts { .. }
            | DenseFault::PieceBytes { .. } => DropReason::DensePart,
            DenseFault::TooLarge { .. } => DropReason::DenseBytes,
            DenseFault::Hash { .. } => DropReason::DenseHash,
        }
    }
}
