//! What an inference request looks like on its way.

use clap::ValueEnum;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WireForm {
    /// HTTP, all of it JSON.
    Json,
    /// HTTP, with tensors behind the JSON.
    Binary,
    Grpc,
}
