//! The level in a Redis cluster.

use std::fmt;
use std::path::{Path, PathBuf};

use super::batch_sizes::BatchSizes;
use super::fields::Fields;
use super::generation::Generation;
use super::level_fill::LevelFill;
use super::model_path::local_path;
use super::node_address::NodeAddress;
use super::ram_level::PARTITIONS_MAX;
use super::scalar::shown;

#[derive(Clone, Debug, PartialEq)]
pub struct RedisLevelConfig {
    /// Servers to ask for the cluster's others; at least one.
    pub addresses: Vec<NodeAddress>,
    pub user_name: String,
    /// Empty where the cluster asks for none.
    pub password: Password,
    /// Hashes that each table is cut into.
    pub num_partitions: u32,
    /// Connections to each server; at most as many as partitions.
    pub num_node_connections: u32,
    pub batches: BatchSizes,
    /// `None`: connections are not encrypted.
    pub tls: Option<TlsConfig>,
    pub fill: LevelFill,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// A file of certificates, or a folder of such files.
    pub ca_certificate: PathBuf,
    /// With `client_key` for servers that ask for it; files of the default names may be absent.
    pub client_certificate: PathBuf,
    pub client_key: PathBuf,
    /// The name that the servers' certificates are for.
    pub server_name: String,
}

/// Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "***" })
    }
}

/// Has a meaning for a Redis cluster only.
pub const REDIS_FIELDS: [&str; 12] = [
    "address",
    "user_name",
    "password",
    "num_node_connections",
    "max_batch_size",
    "max_get_batch_size",
    "max_set_batch_size",
    "enable_tls",
    "tls_ca_certificate",
    "tls_client_certificate",
    "tls_client_key",
    "tls_server_name_identification",
];

/// Of files that need not be there, unless they are named.
pub(crate) const DEFAULT_CLIENT_CERTIFICATE: &str = "client_cert.pem";
pub(crate) const DEFAULT_CLIENT_KEY: &str = "client_key.pem";
const DEFAULT_PARTITIONS: u64 = 8;
const DEFAULT_CONNECTIONS: u64 = 5;
/// Some builds of Redis fail on commands with more.
const SAFE_BATCH_ROWS: usize = 262_143;

impl RedisLevelConfig {
    pub(super) fn read(
        fields: &mut Fields<'_>,
        generation: Generation,
        folder: Option<&Path>,
    ) -> Self {
        let default = NodeAddress { host: "127.0.0.1".to_owned(), port: 7000 };
        let addresses = NodeAddress::read(fields, "address", default);
        let partitions =
            fields.whole("num_partitions", 1..=PARTITIONS_MAX).unwrap_or(DEFAULT_PARTITIONS);
        let batches = BatchSizes::read(fields, generation);
        if batches.read_rows.max(batches.write_rows) > SAFE_BATCH_ROWS {
            let names = ["max_get_batch_size", "max_set_batch_size"];
            let name = names.into_iter().find(|name| fields.has(name)).unwrap_or("max_batch_size");
            let text = format!("some builds of Redis fail on more than {SAFE_BATCH_ROWS} rows");
            fields.report().note(fields.path_of(name), text);
        }
        RedisLevelConfig {
            addresses,
            user_name: fields.text("user_name").unwrap_or("default").to_owned(),
            password: Password(fields.secret("password").unwrap_or_default().to_owned()),
            num_partitions: partitions as u32,
            num_node_connections: connections(fields, partitions) as u32,
            batches,
            tls: TlsConfig::read(fields, folder),
            fill: LevelFill::read(fields, generation),
        }
    }
}

fn connections(fields: &mut Fields<'_>, partitions: u64) -> u64 {
    let connections = fields.whole("num_node_connections", 1..=PARTITIONS_MAX);
    if let Some(connections) = connections.filter(|connections| *connections > partitions) {
        let path = fields.path_of("num_node_connections");
        fields.wrong(&path, connections, format_args!("at most num_partitions, {partitions}"));
    }
    connections.unwrap_or(DEFAULT_CONNECTIONS).min(partitions)
}

impl TlsConfig {
    fn read(fields: &mut Fields<'_>, folder: Option<&Path>) -> Option<Self> {
        let is_enabled = fields.flag("enable_tls").unwrap_or(false);
        let mut path = |name, default| {
            let text = fields.text(name).unwrap_or(default);
            let path = local_path(text, folder);
            if path.is_none() {
                fields.wrong(&fields.path_of(name), shown(text), "a path");
            }
            path.unwrap_or_default()
        };
        let tls = TlsConfig {
            ca_certificate: path("tls_ca_certificate", "cacertbundle.crt"),
            client_certificate: path("tls_client_certificate", DEFAULT_CLIENT_CERTIFICATE),
            client_key: path("tls_client_key", DEFAULT_CLIENT_KEY),
            server_name: fields
                .text("tls_server_name_identification")
                .unwrap_or("redis.localhost")
                .to_owned(),
        };
        let given = REDIS_FIELDS.iter().filter(|name| name.starts_with("tls_") && fields.has(name));
        for name in given.filter(|_| !is_enabled) {
            let text = "has no effect while enable_tls is false";
            fields.report().note(fields.path_of(name), text);
        }
        is_enabled.then_some(tls)
    }
}
