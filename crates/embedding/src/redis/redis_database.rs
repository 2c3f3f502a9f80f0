//! The tables of a parameter server in a Redis Cluster, or in one Redis.
//!
//! It is made without the servers: the first call connects, so one that is down delays nobody's
//! start. Each of `num_node_connections` clients is for some of a cluster's nodes, and connects to
//! all of them, because rows may move: a node that hangs keeps those back that share its client.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use terrace_tiers::{RedisAdvice, RedisNodes, RedisSession, RedisTls, RedisTlsFiles, TierError};

use super::redis_store::RedisStore;
use super::redis_table::RedisTable;
use crate::config::{DEFAULT_CLIENT_CERTIFICATE, DEFAULT_CLIENT_KEY, RedisLevelConfig, TlsConfig};
use crate::partition::PartitionRule;
use crate::table_spec::TableSpec;

pub struct RedisDatabase {
    session: Arc<RedisSession>,
    config: RedisLevelConfig,
    rule: PartitionRule,
}

const ADVICE: RedisAdvice = RedisAdvice {
    login: "set user_name and password to a user who may HMGET, HSET, HSETNX, HDEL, HLEN, HSCAN, \
            HRANDFIELD, HINCRBY, GET, SET, UNLINK, INFO and CLUSTER SLOTS",
    certificate: "check tls_ca_certificate, tls_client_certificate and tls_client_key, and that \
                  the servers' certificates are for tls_server_name_identification",
};
/// The user of servers without users.
const DEFAULT_USER: &str = "default";

impl RedisDatabase {
    /// Reads certificates, if it has any. The first call connects, and each has `time_limit` for
    /// that and for each answer.
    pub fn connect(
        config: &RedisLevelConfig,
        rule: PartitionRule,
        time_limit: Duration,
    ) -> Result<Self, TierError> {
        let addresses: Vec<(String, u16)> =
            config.addresses.iter().map(|address| (address.host.clone(), address.port)).collect();
        let (user, password) = (config.user_name.as_str(), config.password.reveal());
        let has_login = !password.is_empty() || user != DEFAULT_USER;
        let tls = config.tls.as_ref().map(read_tls).transpose()?;
        let nodes =
            RedisNodes::new(&addresses, has_login.then_some((user, password)), tls, ADVICE)?
                .with_clients(config.num_node_connections as usize);
        let session = Arc::new(RedisSession::new(nodes, time_limit, "redis-level")?);
        Ok(RedisDatabase { session, config: config.clone(), rule })
    }

    /// A table, whether there are rows of it or not.
    pub fn table(&self, spec: &TableSpec) -> RedisStore {
        let session = Arc::clone(&self.session);
        RedisStore::new(RedisTable::new(session, spec.clone(), &self.config, self.rule))
    }
}

fn read_tls(tls: &TlsConfig) -> Result<RedisTls, TierError> {
    RedisTls::read(&RedisTlsFiles {
        ca_certificate: tls.ca_certificate.clone(),
        client: client_files(tls),
        server_name: tls.server_name.clone(),
    })
}

/// None where they have the names that they have by default and are not there: few servers ask for
/// a client's certificate.
fn client_files(tls: &TlsConfig) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (&tls.client_certificate, &tls.client_key);
    let is_absent = |path: &Path, default: &str| {
        path.file_name() == Some(OsStr::new(default)) && !path.exists()
    };
    let are_absent =
        is_absent(certificate, DEFAULT_CLIENT_CERTIFICATE) && is_absent(key, DEFAULT_CLIENT_KEY);
    (!are_absent).then(|| (certificate.clone(), key.clone()))
}
