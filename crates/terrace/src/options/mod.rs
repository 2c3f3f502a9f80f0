//! Groups of options that several subcommands share, and how they become the configuration of
//! the crates below.

mod engine_defaults;
mod engine_options;
mod flags;
mod idle_options;
mod kv_cache_options;
mod kv_tier;
mod log_options;
mod model_choice;
mod numbers;
mod peer_flags;
mod ps_options;
pub mod refused;
mod sampling_options;
mod service_options;
mod shape_options;
pub mod trace_path;

pub use engine_defaults::EngineDefaults;
pub use engine_options::EngineOptions;
pub use flags::{flag, part};
pub use idle_options::IdleOptions;
pub use kv_cache_options::KvCacheOptions;
pub use kv_tier::KvTier;
pub use log_options::{LogOptions, start_quiet_log};
pub use model_choice::ModelChoice;
pub use numbers::{at_least_one, fraction, whole_number};
pub use peer_flags::{Arity, OwnOption, PeerFlag, SWITCH_VALUES};
pub use ps_options::PsOptions;
pub use sampling_options::SamplingOptions;
pub use service_options::ServiceOptions;
pub use shape_options::ShapeOptions;
