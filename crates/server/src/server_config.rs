//! Every option of the service. Where it listens is not among them: whoever starts it binds that.

use terrace_engine::RequestRetention;
use terrace_engine::text::GenerationConfig;

use crate::limits::Limits;
use crate::middleware::cors::AllowedOrigin;

#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Requests must carry one of these as `Authorization: Bearer` or `x-api-key`; empty lets
    /// everybody in.
    pub api_keys: Vec<String>,
    /// Web pages from here may use the service from a browser.
    pub allowed_origins: Vec<AllowedOrigin>,
    /// The role the model speaks in, for `/chat`.
    pub response_role: String,
    /// Replaces the model's own chat template: a file, or the template itself, in which `\n` and
    /// its kin may be written as two characters.
    pub chat_template: Option<String>,
    /// What requests leave out is taken from here before the model's own presets.
    pub presets: GenerationConfig,
    pub limits: Limits,
    /// Whether fields that nobody knows are ignored, and named in a response header, instead of
    /// refused.
    pub ignore_unknown_fields: bool,
    /// How long running requests may go on after the stop signal.
    pub drain_seconds: u64,
    /// How long a session lives that no request uses.
    pub session_idle_seconds: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            api_keys: Vec::new(),
            allowed_origins: Vec::new(),
            response_role: "assistant".to_owned(),
            chat_template: None,
            presets: GenerationConfig::default(),
            limits: Limits::default(),
            ignore_unknown_fields: false,
            drain_seconds: 30,
            session_idle_seconds: RequestRetention::SESSION_IDLE_MS / 1000,
        }
    }
}
