//! Which servers to ask, as whom and over what: all that a link is made from.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use super::cluster_slots::Node;
use super::redis_fault::RedisAdvice;
use super::redis_tls::RedisTls;
use crate::tier_error::TierError;

pub struct RedisNodes {
    /// At least one.
    pub(super) nodes: Vec<ConnectionInfo>,
    pub(super) tls: Option<RedisTls>,
    pub(super) advice: RedisAdvice,
    /// Of a cluster, each for some of its nodes.
    pub(super) clients: usize,
}

impl RedisNodes {
    /// From `host:port` or `redis://user:password@host:port`.
    pub fn parse(nodes: &[String], advice: RedisAdvice) -> Result<Self, TierError> {
        let nodes = nodes.iter().map(|node| parse_node(node)).collect::<Result<_, _>>()?;
        RedisNodes { nodes, tls: None, advice, clients: 1 }.checked()
    }

    /// The same user and password for all of them, if any.
    pub fn new(
        addresses: &[Node],
        login: Option<(&str, &str)>,
        tls: Option<RedisTls>,
        advice: RedisAdvice,
    ) -> Result<Self, TierError> {
        let mut settings = RedisConnectionInfo::default();
        if let Some((user, password)) = login {
            settings = settings.set_username(user).set_password(password);
        }
        let node = |(host, port): &Node| {
            let (host, port) = (host.clone(), *port);
            let address = match &tls {
                Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
                None => ConnectionAddr::Tcp(host, port),
            };
            let info = address.into_connection_info().map_err(|error| unreadable(&error))?;
            Ok(info.set_redis_settings(settings.clone()))
        };
        let nodes = addresses.iter().map(node).collect::<Result<_, _>>()?;
        RedisNodes { nodes, tls, advice, clients: 1 }.checked()
    }

    /// So many clients of a cluster, each for some of its nodes and connected to all of them. While
    /// one looks for a node that hangs, those of the others' nodes go on.
    pub fn with_clients(self, clients: usize) -> Self {
        RedisNodes { clients: clients.max(1), ..self }
    }

    fn checked(self) -> Result<Self, TierError> {
        match self.nodes.is_empty() {
            true => Err(TierError::Unavailable("redis: no node is named; name one".into())),
            false => Ok(self),
        }
    }
}

const FORM: &str = "write host:port, or redis://user:password@host:port";

fn parse_node(node: &str) -> Result<ConnectionInfo, TierError> {
    if node.starts_with("rediss://") {
        return Err(TierError::Unavailable(format!(
            "redis over TLS (rediss://) is not supported here; use a private network or a tunnel, \
             and {FORM}"
        )));
    }
    let url = if node.contains("://") { node.to_owned() } else { format!("redis://{node}") };
    url.into_connection_info().map_err(|error| unreadable(&error))
}

/// The text of a node may hold a password, so it is not repeated.
fn unreadable(error: &redis::RedisError) -> TierError {
    TierError::Unavailable(format!("redis: a node cannot be read ({error}); {FORM}"))
}

/// Where a node listens; nothing of a socket file, which is no node of a cluster.
pub(super) fn node_of(info: &ConnectionInfo) -> Node {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            (host.clone(), *port)
        }
        _ => (String::new(), 0),
    }
}
