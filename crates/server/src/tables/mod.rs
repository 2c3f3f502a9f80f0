//! Tables of a parameter server over HTTP: rows looked up, hinted at, and how each level fares.
//!
//! A table is called `MODEL.TABLE`, or by its own name where no other model has one of that name.
//! Look-ups block and run off the async threads; what they may take is bounded before they begin.

pub mod list;
pub mod lookup;
pub mod prefetch;
mod row_reply;
mod table_keys;
mod table_request;
mod table_service;

pub use table_service::{ServedSet, TableService};
