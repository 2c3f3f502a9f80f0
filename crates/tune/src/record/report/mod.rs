//! A run drawn as one HTML file, which loads nothing and needs no script.

mod axis;
mod chart;
mod chart_frame;
mod charts;
mod curve;
mod escaped;
mod memory_unit;
mod page;
#[expect(clippy::module_inception, reason = "the folder and its main type have the same name")]
mod report;
mod short_number;
mod summary;

pub use report::Report;
