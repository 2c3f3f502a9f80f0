//! The way to the servers: a cluster's client that knows which node has which key, or a connection
//! to the one server. Each multiplexes: commands that are under way at once are pipelined, node by
//! node, and those for different nodes run in parallel.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{select_ok, try_join_all};
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, Pipeline, RedisResult,
    Value,
};

use super::cluster_slots::{ClusterSlots, Node};
use super::redis_fault::redis_fault;
use super::redis_nodes::{RedisNodes, node_of};
use super::redis_tls::RedisTls;
use super::tls_names::TlsNames;
use crate::tier_error::TierError;

/// A slot may have moved, and then the next node have become busy.
const RETRIES: u32 = 2;
const LONGEST_RETRY_WAIT_MS: u64 = 50;

#[derive(Clone)]
pub struct RedisLink {
    pub(super) wire: Wire,
    /// Of a cluster, as it was when the link was made.
    slots: Option<Arc<ClusterSlots>>,
    /// The node that answered first.
    pub(super) asked: Arc<Node>,
}

#[derive(Clone)]
pub(super) enum Wire {
    /// At least one, each for the nodes whose number has its own as the remainder. What a client
    /// does about a node that cannot be reached holds up all that it has under way.
    Cluster(Arc<[ClusterConnection]>),
    Single(MultiplexedConnection),
}

impl RedisLink {
    /// Whoever of `nodes` answers first says whether they are a cluster, and who is in it.
    pub async fn connect(nodes: &RedisNodes, timeout: Duration) -> Result<Self, TierError> {
        // A third of the time, so that a node that hangs does not use up the time of the others.
        let connecting = timeout / 3;
        let fault = |error| redis_fault(&error, "redis", &nodes.advice);
        let attempts =
            nodes.nodes.iter().map(|node| ask(node, nodes.tls.as_ref(), connecting).boxed());
        let (Answer { node, connection, slots }, _) = select_ok(attempts).await.map_err(fault)?;
        let asked = Arc::new(node_of(node));
        let Some(slots) = slots else {
            return match nodes.nodes.len() {
                1 => Ok(RedisLink { wire: Wire::Single(connection), slots: None, asked }),
                count => Err(TierError::Protocol(format!(
                    "redis: {count} nodes are named, and they are not a cluster; name one, or \
                     start them with cluster-enabled yes"
                ))),
            };
        };
        let slots = ClusterSlots::read(slots, &asked.0)?;
        // The others are known from this one, and one of them may hang.
        let mut client = ClusterClient::builder([node.clone()])
            .connection_timeout(connecting)
            // Whoever waits has a time limit of their own.
            .response_timeout(4 * timeout)
            .retries(RETRIES)
            .max_retry_wait(LONGEST_RETRY_WAIT_MS);
        if let Some(tls) = &nodes.tls {
            let mut known = slots.nodes();
            known.insert(Node::clone(&asked));
            let names = TlsNames::new(&tls.server_name, known);
            client = client.certs(tls.certificates.clone());
            client = client.node_address_map(names.addresses()).async_dns_resolver(names);
        }
        let client = client.build().map_err(fault)?;
        let count = nodes.clients.min(slots.primary_count()).max(1);
        let clients = try_join_all((0..count).map(|_| client.get_async_connection()));
        let wire = Wire::Cluster(clients.await.map_err(fault)?.into());
        Ok(RedisLink { wire, slots: Some(Arc::new(slots)), asked })
    }

    /// Runs a command where its first key is.
    pub async fn run(&self, command: &Cmd) -> RedisResult<Value> {
        match &self.wire {
            Wire::Cluster(clients) => command.query_async(&mut clients[0].clone()).await,
            Wire::Single(connection) => command.query_async(&mut connection.clone()).await,
        }
    }

    /// Runs a command on keys of one slot.
    pub async fn run_at(&self, slot: u16, command: Cmd) -> RedisResult<Value> {
        self.run_one(slot, command).await?.extract_error()
    }

    /// Runs commands on keys of one slot, one after the other, and gives their answers. An error of
    /// one is among the answers. While a slot moves to another node only a single command follows
    /// it there; several fail until it has moved.
    pub async fn run_all_at(&self, slot: u16, commands: Vec<Cmd>) -> RedisResult<Vec<Value>> {
        let commands = match <[Cmd; 1]>::try_from(commands) {
            Ok([one]) => return Ok(vec![self.run_one(slot, one).await?]),
            Err(commands) => commands,
        };
        let count = commands.len();
        let mut all = Pipeline::with_capacity(count);
        commands.into_iter().for_each(|command| {
            all.add_command(command);
        });
        match &self.wire {
            Wire::Cluster(clients) => {
                let mut client = self.client_of(clients, slot);
                client.route_pipeline(all, 0, count, primary(slot)).await
            }
            Wire::Single(connection) => {
                connection.clone().send_packed_commands(&all, 0, count).await
            }
        }
    }

    async fn run_one(&self, slot: u16, command: Cmd) -> RedisResult<Value> {
        match &self.wire {
            Wire::Cluster(clients) => {
                let mut client = self.client_of(clients, slot);
                client.route_command(command, RoutingInfo::SingleNode(primary(slot))).await
            }
            Wire::Single(connection) => connection.clone().send_packed_command(&command).await,
        }
    }

    fn client_of(&self, clients: &[ClusterConnection], slot: u16) -> ClusterConnection {
        let owner = self.slots.as_ref().and_then(|slots| slots.primary_of(slot));
        clients[owner.map_or(0, |(_, number)| number) % clients.len()].clone()
    }

    /// The node that had the slot when the link was made: `host:port`.
    pub fn node_of(&self, slot: u16) -> String {
        let (host, port) = &*self.asked;
        let Some(slots) = &self.slots else { return format!("{host}:{port}") };
        match slots.primary_of(slot) {
            Some(((host, port), _)) => format!("{host}:{port}"),
            None => format!("the cluster of {host}:{port}"),
        }
    }
}

fn primary(slot: u16) -> SingleNodeRoutingInfo {
    SingleNodeRoutingInfo::SpecificNode(Route::new(slot, SlotAddr::Master))
}

struct Answer<'a> {
    node: &'a ConnectionInfo,
    connection: MultiplexedConnection,
    /// Of a node of a cluster.
    slots: Option<Value>,
}

/// A connection, and whether the server is a node of a cluster.
async fn ask<'a>(
    node: &'a ConnectionInfo,
    tls: Option<&RedisTls>,
    timeout: Duration,
) -> RedisResult<Answer<'a>> {
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(None);
    let client = match tls {
        None => Client::open(node.clone())?,
        Some(tls) => {
            config =
                config.set_dns_resolver(TlsNames::new(&tls.server_name, [node_of(node)].into()));
            let host = tls.server_name.clone();
            let shared =
                ConnectionAddr::TcpTls { host, port: 0, insecure: false, tls_params: None };
            Client::build_with_tls(node.clone().set_addr(shared), tls.certificates.clone())?
        }
    };
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let info: String = redis::cmd("INFO").arg("cluster").query_async(&mut connection).await?;
    let mut slots = None;
    if info.contains("cluster_enabled:1") {
        slots = Some(redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await?);
    }
    Ok(Answer { node, connection, slots })
}
