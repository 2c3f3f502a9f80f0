//! Real Redis servers on free ports of this machine, ended with the test.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Client, Connection, FromRedisValue};
use tempfile::TempDir;

/// How long a test waits for servers to do what they must. They need a few seconds at most.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct RedisServer {
    process: Child,
    folder: TempDir,
    options: Vec<String>,
    password: Option<String>,
    pub port: u16,
}

impl RedisServer {
    pub fn start(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let password = options.iter().position(|option| *option == "--requirepass");
        let password = password.map(|at| options[at + 1].to_owned());
        let options: Vec<_> = options.iter().map(|option| option.to_string()).collect();
        let port = free_port();
        let process = spawn(port, &folder, &options);
        let server = RedisServer { process, folder, options, password, port };
        server.wait_until_it_answers();
        server
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("a server");
        self.process.wait().expect("a server");
    }

    /// After it was killed, with what it has in its folder.
    pub fn start_again(&mut self) {
        self.process = spawn(self.port, &self.folder, &self.options);
        self.wait_until_it_answers();
    }

    /// "STOP" and "CONT".
    pub fn signal(&self, name: &str) {
        let process = self.process.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &process]).status();
        assert!(sent.expect("kill").success());
    }

    pub fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut self.connection().expect("a server")).expect("an answer")
    }

    fn connection(&self) -> redis::RedisResult<Connection> {
        let user = self.password.as_ref().map_or(String::new(), |word| format!(":{word}@"));
        let client = Client::open(format!("redis://{user}{}/", self.address()))?;
        client.get_connection_with_timeout(Duration::from_secs(5))
    }

    fn wait_until_it_answers(&self) {
        wait_until("a server answers", || {
            self.connection().is_ok_and(|mut connection| {
                redis::cmd("PING").query::<String>(&mut connection).is_ok()
            })
        });
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Three masters without replicas, each with a third of the slots.
pub struct RedisCluster {
    pub servers: Vec<RedisServer>,
}

impl RedisCluster {
    pub fn start() -> Self {
        let servers: Vec<_> = (0..3)
            .map(|_| {
                let timeout = ["--cluster-node-timeout", "2000"];
                RedisServer::start(&[&["--cluster-enabled", "yes"], &timeout[..]].concat())
            })
            .collect();
        for (slots, server) in [0..5461, 5461..10923, 10923..16384].into_iter().zip(&servers) {
            let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
            let words = ["CLUSTER", "ADDSLOTS"].into_iter();
            server
                .command::<()>(&words.chain(slots.iter().map(String::as_str)).collect::<Vec<_>>());
        }
        for server in &servers[1..] {
            let port = server.port.to_string();
            servers[0].command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port]);
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
                let info: String = server.command(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            })
        });
    }
}

#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited for {PATIENCE:?} until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn spawn(port: u16, folder: &TempDir, options: &[String]) -> Child {
    let mut server = Command::new("redis-server");
    server.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    server.args(["--appendonly", "no", "--daemonize", "no", "--loglevel", "warning"]);
    server.arg("--dir").arg(folder.path()).args(options).stdout(Stdio::null());
    server.spawn().expect("redis-server cannot be started; run tools/setup.sh tests")
}

/// One whose second port, on which nodes of a cluster talk to each other, is free too.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let second = port.checked_add(10_000);
        if second.is_some_and(|second| TcpListener::bind(("127.0.0.1", second)).is_ok()) {
            return port;
        }
    }
}
