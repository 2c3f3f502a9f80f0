//! Three masters without replicas, each with a third of the slots.

use super::redis_server::RedisServer;
use crate::wait::wait_until;

pub struct RedisCluster {
    pub servers: Vec<RedisServer>,
}

impl RedisCluster {
    pub fn start() -> Self {
        RedisCluster::start_each(Vec::new)
    }

    /// With more options for each server.
    pub fn start_each(options: impl Fn() -> Vec<String>) -> Self {
        let servers: Vec<_> = (0..3)
            .map(|_| {
                let options = options();
                let mut all = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
                all.extend(options.iter().map(String::as_str));
                RedisServer::start(&all)
            })
            .collect();
        for (slots, server) in [0..5461, 5461..10923, 10923..16384].into_iter().zip(&servers) {
            let words = ["CLUSTER".to_owned(), "ADDSLOTS".to_owned()].into_iter();
            let slots = slots.map(|slot| slot.to_string());
            server.command(&words.chain(slots).collect::<Vec<_>>());
        }
        for server in &servers[1..] {
            let port = server.port.to_string();
            // With TLS nodes know each other by that port.
            let port = server.option("--tls-port").unwrap_or(&port);
            servers[0].command(&["CLUSTER", "MEET", "127.0.0.1", port]);
        }
        let cluster = RedisCluster { servers };
        cluster.wait_until_ok();
        cluster
    }

    pub fn nodes(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::address).collect()
    }

    /// All three know that all slots are served.
    pub fn wait_until_ok(&self) {
        wait_until("the cluster is ok", || {
            self.servers.iter().all(|server| {
                let info = server.command(&["CLUSTER", "INFO"]);
                let wanted =
                    ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3"];
                wanted.iter().all(|line| info.text().contains(line))
            })
        });
    }
}
