//! The engine over golden models.

mod golden_engine;
mod inference_engine;
