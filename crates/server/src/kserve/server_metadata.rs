//! What this server says about itself.

pub const SERVER_NAME: &str = "terrace";

pub const SERVER_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Of the protocol, those that act here.
pub const EXTENSIONS: [&str; 8] = [
    "classification",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
];
