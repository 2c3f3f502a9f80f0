//! The ops as their users see them.

mod conformance;
