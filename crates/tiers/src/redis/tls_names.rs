//! Servers that share one name in their certificates, wherever they listen.
//!
//! The client checks a certificate against the host that it connects to, and nodes of a cluster
//! mostly name themselves by IP address. So each known node gets an address made of the shared name
//! and its number as the port, and looking up such an address leads to the node. A node that joined
//! later has none: its certificate must be for the host that it names, until the next link.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use redis::RedisFuture;
use redis::cluster::NodeAddress;
use redis::io::AsyncDNSResolver;

use super::cluster_slots::Node;

#[derive(Clone)]
pub struct TlsNames {
    server_name: Arc<str>,
    nodes: Arc<[Node]>,
}

impl TlsNames {
    pub fn new(server_name: &str, nodes: BTreeSet<Node>) -> Self {
        TlsNames { server_name: server_name.into(), nodes: nodes.into_iter().collect() }
    }

    /// The address by which each node is reached.
    pub fn addresses(&self) -> HashMap<NodeAddress, NodeAddress> {
        let numbered = self.nodes.iter().zip(0..=u16::MAX);
        let address = |((host, port), number): (&Node, u16)| {
            let shared = NodeAddress::new(&*self.server_name, number);
            (NodeAddress::new(host.as_str(), *port), shared)
        };
        numbered.map(address).collect()
    }

    fn node<'a>(&'a self, host: &'a str, port: u16) -> (&'a str, u16) {
        match self.nodes.get(usize::from(port)) {
            Some((host_of_node, port_of_node)) if host == &*self.server_name => {
                (host_of_node, *port_of_node)
            }
            _ => (host, port),
        }
    }
}

impl AsyncDNSResolver for TlsNames {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        host: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        async move {
            let found = tokio::net::lookup_host(self.node(host, port)).await?;
            let found: Vec<SocketAddr> = found.collect();
            if found.is_empty() {
                let text = format!("{host} has no address");
                return Err(std::io::Error::new(std::io::ErrorKind::NotFound, text).into());
            }
            Ok(Box::new(found.into_iter()) as Box<dyn Iterator<Item = _> + Send>)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_node_is_found_by_its_number_and_others_by_their_own_address() {
        let nodes = [("10.0.0.1", 7000), ("10.0.0.2", 7000), ("shared", 7001)];
        let nodes = nodes.map(|(host, port)| (host.to_owned(), port));
        let names = TlsNames::new("shared", nodes.iter().cloned().collect());
        let addresses = names.addresses();
        for (host, port) in &nodes {
            let shared = &addresses[&NodeAddress::new(host.as_str(), *port)];
            assert_eq!(shared.host(), "shared");
            assert_eq!(names.node(shared.host(), shared.port()), (host.as_str(), *port));
        }
        assert_eq!(names.node("10.0.0.3", 1), ("10.0.0.3", 1));
        assert_eq!(names.node("shared", 7002), ("shared", 7002));
    }
}
