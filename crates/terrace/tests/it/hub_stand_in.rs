//! A server that stands in for the hub: the two kinds of requests its clients make, over files in
//! memory.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub struct HubStandIn {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

/// Repositories with their files.
pub type Repos = Vec<(&'static str, Vec<(String, Vec<u8>)>)>;

pub const COMMIT: &str = "0123456789012345678901234567890123456789";

impl HubStandIn {
    /// Repositories named `private/…` want the token `secret`.
    pub fn start(repos: Repos) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that leaves early has what it wanted.
                let _ = respond(stream.expect("a connection"), &repos, &seen);
            }
        });
        Self { port, requests }
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The paths that were requested since the last call.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().expect("no panics"))
    }
}

fn respond(stream: TcpStream, repos: &Repos, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(&stream).lines();
    let request = lines.next().expect("a request")?;
    let path = request.split(' ').nth(1).expect("a path").to_owned();
    let head: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .map(|line| line.to_ascii_lowercase())
        .collect();
    seen.lock().expect("no panics").push(path.clone());
    let header = |name: &str| head.iter().find_map(|line| line.strip_prefix(name));
    let range = header("range: bytes=").and_then(|range| range.split_once('-'));
    let may_read = header("authorization: ") == Some("bearer secret");
    let (status, headers, body) = match found(&path, repos) {
        Some((repo, _)) if repo.starts_with("private/") && !may_read => {
            ("401 Unauthorized", String::new(), Vec::new())
        }
        Some((_, bytes)) => partial(&bytes, range),
        None => ("404 Not Found", String::new(), Vec::new()),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n");
    (&stream).write_all(format!("{head}connection: close\r\n\r\n").as_bytes())?;
    (&stream).write_all(&body)
}

/// The repository that the path is about, and what it says or holds there.
fn found(path: &str, repos: &Repos) -> Option<(&'static str, Vec<u8>)> {
    for (repo, files) in repos {
        if let Some(revision) = path.strip_prefix(&format!("/api/models/{repo}/revision/")) {
            assert_eq!(revision, "main");
            let siblings = files.iter().map(|(name, _)| serde_json::json!({"rfilename": name}));
            let siblings = siblings.collect::<Vec<_>>();
            let about = serde_json::json!({"siblings": siblings, "sha": COMMIT});
            return Some((repo, about.to_string().into_bytes()));
        }
        let file = path.strip_prefix(&format!("/{repo}/resolve/{COMMIT}/"));
        let file = file.and_then(|file| files.iter().find(|(name, _)| name == file));
        if let Some((_, bytes)) = file {
            return Some((repo, bytes.clone()));
        }
    }
    None
}

fn partial(bytes: &[u8], range: Option<(&str, &str)>) -> (&'static str, String, Vec<u8>) {
    let Some((start, end)) = range else { return ("200 OK", String::new(), bytes.to_vec()) };
    let start: usize = start.parse().expect("a number");
    let end = end.parse().map_or(bytes.len(), |last: usize| last + 1);
    let etag = bytes.iter().fold(bytes.len(), |sum, byte| sum * 31 % 1_000_003 + *byte as usize);
    let headers = format!(
        "content-range: bytes {start}-{}/{}\r\netag: \"{etag}\"\r\nx-repo-commit: {COMMIT}\r\n",
        end - 1,
        bytes.len()
    );
    ("206 Partial Content", headers, bytes[start..end].to_vec())
}
