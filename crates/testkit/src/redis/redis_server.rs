//! A real Redis server on a free port of this machine, ended with the test.

use std::io::{self, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::redis_reply::RedisReply;
use crate::wait::wait_until;

pub struct RedisServer {
    process: Child,
    folder: TempDir,
    options: Vec<String>,
    pub port: u16,
}

const PATIENCE: Duration = Duration::from_secs(5);

impl RedisServer {
    pub fn start(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options: Vec<_> = options.iter().map(|option| option.to_string()).collect();
        let port = free_port();
        let process = spawn(port, &folder, &options);
        let server = RedisServer { process, folder, options, port };
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

    /// An error of the server ends the test.
    #[track_caller]
    pub fn command(&self, words: &[impl AsRef<[u8]>]) -> RedisReply {
        match self.try_command(words).expect("a server") {
            RedisReply::Error(error) => panic!("{error}"),
            reply => reply,
        }
    }

    fn try_command(&self, words: &[impl AsRef<[u8]>]) -> io::Result<RedisReply> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        if let Some(password) = self.option("--requirepass") {
            stream.get_mut().write_all(&packed(&["AUTH", password]))?;
            RedisReply::read(&mut stream)?;
        }
        stream.get_mut().write_all(&packed(words))?;
        RedisReply::read(&mut stream)
    }

    /// The value of an option that it was started with.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let at = self.options.iter().position(|option| option == name)?;
        self.options.get(at + 1).map(String::as_str)
    }

    fn wait_until_it_answers(&self) {
        let answers = || self.try_command(&["PING"]).is_ok_and(|it| it.text() == "PONG");
        wait_until("a server answers", answers);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One whose second port, on which nodes of a cluster talk to each other, is free too.
pub fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let second = port.checked_add(10_000);
        if second.is_some_and(|second| TcpListener::bind(("127.0.0.1", second)).is_ok()) {
            return port;
        }
    }
}

fn packed(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

fn spawn(port: u16, folder: &TempDir, options: &[String]) -> Child {
    let mut server = Command::new("redis-server");
    server.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    server.args(["--appendonly", "no", "--daemonize", "no", "--loglevel", "warning"]);
    server.arg("--dir").arg(folder.path()).args(options).stdout(Stdio::null());
    server.spawn().expect("redis-server cannot be started; run tools/setup.sh tests")
}
