//! A real server of S3's protocol on a free port of this machine, ended with the test.
//!
//! It is moto's, in the Python of the tests; objects are in its memory only. What a test asks of it
//! goes over a client of its own, not over the one that is tested.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::wait::wait_until;

pub struct ObjectServer {
    process: Child,
    folder: TempDir,
    pub port: u16,
}

const PATIENCE: Duration = Duration::from_secs(60);
const ADDRESS: &str = "127.0.0.1:";
/// Without any, objects that are there could not be changed; nobody looks whether it is right.
const LOGIN: &str = "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request, \
                     SignedHeaders=host, Signature=00";

impl ObjectServer {
    pub fn start() -> Self {
        ObjectServer::start_with(&[])
    }

    /// With more options of moto's server. One that speaks TLS cannot be asked for anything here.
    pub fn start_with(options: &[&str]) -> Self {
        let python = std::env::var_os("TERRACE_TEST_PYTHON")
            .expect("TERRACE_TEST_PYTHON names no Python with the moto package: run `make test`");
        let folder = tempfile::tempdir().expect("a folder");
        let log = File::create(folder.path().join("log")).expect("a file");
        let process = Command::new(python)
            // Leaves no compiled files; the server itself takes a free port.
            .args(["-B", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"])
            .args(options)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("TERRACE_TEST_PYTHON starts");
        let mut server = ObjectServer { process, folder, port: 0 };
        wait_until("an object server says its port", || {
            let ended = server.process.try_wait().expect("a process");
            assert!(ended.is_none(), "the object server ended: {ended:?}");
            server.port = port_in(&server.log()).unwrap_or(0);
            server.port != 0
        });
        server
    }

    pub fn address(&self) -> String {
        format!("{ADDRESS}{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    #[track_caller]
    pub fn make_bucket(&self, name: &str) {
        self.request("PUT", &format!("/{name}"), b"");
    }

    /// Puts an object at `bucket/path`, in the place of one that is there.
    #[track_caller]
    pub fn put(&self, path: &str, bytes: &[u8]) {
        self.request("PUT", &format!("/{path}"), bytes);
    }

    #[track_caller]
    pub fn remove(&self, path: &str) {
        self.request("DELETE", &format!("/{path}"), b"");
    }

    /// From now on everybody needs a login, and there are none.
    #[track_caller]
    pub fn deny_all(&self) {
        self.request("POST", "/moto-api/reset-auth", b"0");
    }

    /// Each request is a line with its method and path.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("its log")
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("a server");
        self.process.wait().expect("a server");
    }

    #[track_caller]
    fn request(&self, method: &str, path: &str, body: &[u8]) {
        let answer = self.try_request(method, path, body).expect("a server");
        assert!(answer.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
    }

    fn try_request(&self, method: &str, path: &str, body: &[u8]) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (path, bytes) = (path.replace(' ', "%20"), body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Authorization: {LOGIN}\r\nContent-Length: {bytes}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("the object server's log:\n{}", self.log());
        }
    }
}

fn port_in(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once(ADDRESS)?;
    rest.split_once('\n')?.0.trim().parse().ok()
}
