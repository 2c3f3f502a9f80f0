//! HSTU models held to what their original implementations computed, on whatever device the ops
//! compute.

mod attention;
mod case;
mod check;
mod layers;
mod metrics;
mod positions;
mod ranking;
mod sequential;
mod stack_run;
mod strip;
mod stu;

pub use check::check_folder;
