//! The engine as its users see it, over golden models and over simulated devices.

mod cached_tokens;
mod context_length;
mod dynamic_rope;
mod embeddings;
mod engine;
mod extremes;
mod fixture;
mod golden_engine;
mod guided;
mod guided_schemas;
mod handle;
mod inference_engine;
mod layer_groups;
mod overlap;
mod own_policies;
mod own_scores;
mod policies;
mod policy_fixture;
mod simulation;
mod simulation_executor;
mod simulation_invariants;
mod simulation_load;
mod simulation_memory;
