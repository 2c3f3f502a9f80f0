//! What an engine does, over time, as a file for Perfetto and Chrome's `about:tracing`: steps,
//! copies of pages, and the work of the lower tiers.

mod engine_trace;
mod trace_file;
mod trace_tracks;

pub(crate) use engine_trace::EngineTrace;
pub(crate) use trace_file::TraceFile;
pub(crate) use trace_tracks::{TraceSpan, TraceTracks, Track};
