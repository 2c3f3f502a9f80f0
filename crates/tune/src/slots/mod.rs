//! Slots of a layer for a whole batch: what lies in them, who chooses them, and what a replay has.

mod batch_replay;
mod layer_slots;
mod op_policy;
mod rounding;
mod slot_choice;
mod table_policy;

pub use batch_replay::BatchReplay;
pub(crate) use layer_slots::{LayerSlots, PlacedChunk};
pub use rounding::Rounding;
pub(crate) use slot_choice::{PolicySlots, SlotChoice};
