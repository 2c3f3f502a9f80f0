//! Policies, formats and attention on a device, held to what awslabs/keys_values computed.
//!
//! Slots are driven by hand here, step by step through the ops of whatever device computes; the
//! tests of this crate and `terrace selftest` share it.

mod attention_check;
mod case_kinds;
mod check;
mod driven_slots;
mod error;
mod host_slots;
mod placed;
mod policy_case;
mod policy_check;
mod quantiser_check;
mod quirks;

pub use check::check_folder;
pub use driven_slots::{DrivenSlots, RunShape, SeqOut, SeqStep};
pub use error::GoldenError;
pub use host_slots::{HostSlots, SlotArray, SlotAt};
pub use placed::{Placed, f32s};
pub use policy_case::Letters;
