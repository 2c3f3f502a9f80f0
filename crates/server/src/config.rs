//! Every option of the service, as the configuration file and the command line say them.

use serde::{Deserialize, Serialize};
use terrace_engine::text::GenerationConfig;

use crate::limits::Limits;

/// The `[server]` table. A name that is not here is refused, so that a misspelt option is seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Where to listen; whoever starts the server binds it.
    pub host: String,
    /// 0 takes any free port.
    pub port: u16,
    /// Requests must carry one of these as `Authorization: Bearer`; empty lets everybody in.
    pub api_keys: Vec<String>,
    /// The role the model speaks in, for `/chat`.
    pub response_role: String,
    /// Replaces the model's own chat template: a file, or the template itself, in which `\n` and
    /// its kin may be written as two characters.
    pub chat_template: Option<String>,
    /// What requests leave out is taken from here before the model's own presets.
    pub presets: GenerationConfig,
    pub limits: Limits,
    /// How long running answers may go on after the stop signal.
    pub drain_seconds: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8000,
            api_keys: Vec::new(),
            response_role: "assistant".to_owned(),
            chat_template: None,
            presets: GenerationConfig::default(),
            limits: Limits::default(),
            drain_seconds: 30,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_is_the_default() {
        assert_eq!(toml::from_str::<ServerConfig>("").unwrap(), ServerConfig::default());
    }

    #[test]
    fn a_table_changes_only_what_it_names() {
        let text = "port = 9000\n[limits]\nbody_bytes = 1024\n[presets]\ntemperature = 0.5\n";
        let config: ServerConfig = toml::from_str(text).unwrap();
        assert_eq!(config.port, 9000);
        assert_eq!(config.host, "127.0.0.1");
        assert_eq!(config.limits, Limits { body_bytes: 1024, ..Limits::default() });
        assert_eq!(config.presets.temperature, Some(0.5));
    }

    #[test]
    fn a_misspelt_option_is_refused() {
        let error = toml::from_str::<ServerConfig>("prot = 9000").unwrap_err();
        assert!(error.to_string().contains("unknown field `prot`"), "{error}");
    }
}
