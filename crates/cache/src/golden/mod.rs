//! Policies, formats and attention on a device, held to what awslabs/keys_values computed.
//!
//! Slots are driven by hand here, step by step through the ops of whatever device computes; the
//! tests of this crate and `terrace selftest` share it.

mod host_slots;
mod placed;
mod slot_run;

pub use host_slots::{HostSlots, SlotArray, SlotAt};
pub use slot_run::{RunShape, SeqOut, SeqStep, SlotRun};
