//! A server with everything around it that can fail: Redis nodes, a broker, files and a database;
//! and a thread that looks rows up meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use terrace_embedding::{LevelKind, ParameterServer, PsConfig, TagStyle, cluster_slot};
use terrace_testkit::{RedisCluster, RedisReply, RedisServer, Rng};

use crate::kafka_broker::wait_until;
use crate::redis_level::server_of;
use crate::row_watch::{KeyVersions, RowWatch};
use crate::served::{config, start, table, versions, write_files};
use crate::served_feed::{FILES_MS, ServedFeed, level_versions, set_time};

pub const KEYS: usize = 200;
/// As many as a configuration has that does not say.
const REDIS_PARTITIONS: u32 = 8;

pub struct World {
    pub feed: ServedFeed,
    pub cluster: RedisCluster,
    pub rng: Rng,
    folder: tempfile::TempDir,
    persistent: Option<&'static str>,
    server: Option<Arc<ParameterServer>>,
    watch: Option<RowWatch>,
    versions: Arc<KeyVersions>,
    version: u32,
}

impl World {
    /// `persistent`: its kind.
    pub fn start(persistent: Option<&'static str>, seed: u64) -> Self {
        // Otherwise none of the others answers when one is gone.
        let options = ["--cluster-require-full-coverage", "no"].map(str::to_owned).to_vec();
        let mut world = World {
            feed: ServedFeed::start(),
            cluster: RedisCluster::start_each(|| options.clone()),
            rng: Rng::new(seed),
            folder: tempfile::tempdir().expect("a folder"),
            persistent,
            server: None,
            watch: None,
            versions: KeyVersions::new(KEYS, 1),
            version: 1,
        };
        write_files(&world.files(), &world.versions.keys(), 1);
        set_time(&world.files(), FILES_MS);
        world.start_server();
        world.settle();
        world
    }

    fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    fn config(&self) -> PsConfig {
        let address = self.cluster.nodes().join(",");
        let database = match self.persistent {
            Some(kind) => json!({ "type": kind, "path": self.folder.path().join("db") }),
            None => Value::Null,
        };
        let levels = json!({
            "volatile_db": {
                "type": "redis_cluster", "address": address, "cache_missed_embeddings": true,
            },
            "persistent_db": database,
            "update_source": self.feed.source(),
        });
        let cache = json!({ "gpucache": true, "gpucacheper": 0.3 });
        config(&self.files(), &levels, &cache)
    }

    pub fn server(&self) -> &Arc<ParameterServer> {
        self.server.as_ref().expect("it runs")
    }

    pub fn watch(&self) -> &RowWatch {
        self.watch.as_ref().expect("it runs")
    }

    fn start_server(&mut self) {
        let server = Arc::new(start(&self.config()));
        let seed = self.rng.number();
        self.watch = Some(RowWatch::start(&server, &self.versions, seed));
        self.server = Some(server);
    }

    pub fn restart_server(&mut self) {
        self.stop();
        self.start_server();
    }

    /// Ends the server; fails if a look-up was wrong.
    pub fn stop(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.stop();
        }
        drop(self.server.take());
    }

    /// New rows for some keys. The broker need not answer.
    pub fn publish(&mut self) {
        self.version += 1;
        let count = 1 + self.rng.below(KEYS / 2);
        let mut keys = self.versions.keys();
        self.rng.shuffle(&mut keys);
        keys.truncate(count);
        self.versions.publish(&keys, self.version);
        self.feed.queue_at(&keys, self.version, FILES_MS + i64::from(self.version));
    }

    /// Waits until look-ups and all levels agree on the newest rows.
    #[track_caller]
    pub fn settle(&self) {
        self.feed.flush();
        let keys = self.versions.keys();
        let want: Vec<_> = keys.iter().map(|key| Some(self.feed.newest(*key, 1))).collect();
        let server = Arc::clone(self.server());
        let kinds = table(&server).levels().levels().iter().map(|level| level.kind());
        for kind in kinds.collect::<Vec<LevelKind>>() {
            wait_until(&format!("{kind:?} has all of the newest rows"), || {
                level_versions(&server, kind, &keys).is_ok_and(|found| found == want)
            });
        }
        wait_until("nothing is filled again", || {
            (0..REDIS_PARTITIONS).all(|partition| self.is_vouched_for(partition))
        });
        wait_until("look-ups ask every level", || {
            table(&server).levels().levels().iter().all(|level| !level.is_suspended())
        });
        wait_until("look-ups give the newest rows", || versions(&server, &keys) == want);
        // By then it is committed, too.
        wait_until("nothing is behind", || {
            server.consumers().iter().all(|(_, counters)| counters.at_end_for.is_some())
        });
        self.versions.settle();
        self.watch().wait_for_look_ups(5);
    }

    /// Whether the server has said that a partition's rows are right: it writes no old ones there.
    fn is_vouched_for(&self, partition: u32) -> bool {
        let name = TagStyle::Hps.table_tag("m", "t").redis_trust_key(partition);
        let node = server_of(&self.cluster, cluster_slot(&name));
        let (vouched, info) = (node.command(&["GET", &name]), node.command(&["INFO", "server"]));
        let run_id = info.text().lines().find_map(|line| line.strip_prefix("run_id:"));
        vouched != RedisReply::Nil && vouched.text().ends_with(run_id.expect("of every server"))
    }

    pub fn kill_redis(&mut self, number: usize) {
        self.loosen();
        self.cluster.servers[number].kill();
    }

    pub fn start_redis(&mut self, number: usize) {
        self.cluster.servers[number].start_again();
    }

    pub fn kill_all_redis(&mut self) {
        self.loosen();
        self.cluster.servers.iter_mut().for_each(RedisServer::kill);
    }

    pub fn start_all_redis(&mut self) {
        self.cluster.servers.iter_mut().for_each(RedisServer::start_again);
        self.cluster.wait_until_ok();
    }

    pub fn set_broker_up(&self, is_up: bool) {
        self.feed.set_broker_up(is_up);
    }

    /// What was applied and not committed comes again, older rows first.
    pub fn may_go_back(&self) {
        self.versions.may_be_old.store(true, Ordering::SeqCst);
    }

    /// Without a level below Redis, what it loses is missing or old until it is filled again.
    pub fn loosen(&self) {
        if self.persistent.is_none() {
            self.versions.may_miss.store(true, Ordering::SeqCst);
            self.versions.may_be_old.store(true, Ordering::SeqCst);
        }
    }
}
