//! How much memory requests take of a running server, and that they give it back.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::server_process::ServerProcess;

/// Just below the server's default limit for bodies.
const BODY_BYTES: usize = (4 << 20) - 1024;
const MIB: u64 = 1 << 20;

/// What one body may cost: a little, and so much for each of its bytes.
const BODY_COST: u64 = MIB;
const BYTE_COST: u64 = 20;
const CLIENTS: usize = 100;
/// What that many bodies at once may cost.
const CLIENTS_COST: u64 = 1 << 30;
const IDLE_TIME: Duration = Duration::from_secs(10);
/// What may be left after the idle time.
const LEFT: u64 = 100 * MIB;

#[test]
fn a_large_body_costs_at_most_20_times_its_bytes() {
    let server = Measured::start();
    let mut failed = String::new();
    for case in cases() {
        let idle = server.resident();
        server.reset_peak();
        let response = post(server.port(), case.path, &case.body);
        let peak = server.peak().saturating_sub(idle);
        let limit = BODY_COST + BYTE_COST * case.body.len() as u64;
        let times = peak as f64 / case.body.len() as f64;
        println!("{}: {} MiB, {times:.1} times its bytes", case.name, peak / MIB);
        assert_eq!(response.status, case.status, "{}: {}", case.name, response.start());
        assert!(response.body.contains(case.says), "{}: {}", case.name, response.start());
        if limit < peak {
            failed += &format!("{}: {peak} bytes, the limit is {limit}\n", case.name);
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn many_large_bodies_at_once_are_bounded_and_given_back() {
    let server = Measured::start();
    let cases: Arc<Vec<Case>> = Arc::new(cases());
    let idle = server.resident();
    server.reset_peak();
    let port = server.port().to_owned();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (cases, port) = (Arc::clone(&cases), port.clone());
            thread::spawn(move || {
                let case = &cases[client % cases.len()];
                let response = post(&port, case.path, &case.body);
                // Who waits too long for memory is refused with a time to retry.
                let is_expected =
                    response.status == case.status && response.body.contains(case.says);
                let is_busy = response.status == 503 && response.head.contains("retry-after: ");
                assert!(is_expected || is_busy, "{}: {}", case.name, response.start());
            })
        })
        .collect();
    for client in clients {
        client.join().expect("every request is answered");
    }
    let peak = server.peak().saturating_sub(idle);
    println!("{CLIENTS} at once: {} MiB", peak / MIB);
    assert!(peak <= CLIENTS_COST, "{peak} bytes, the limit is {CLIENTS_COST}");

    thread::sleep(IDLE_TIME);
    let left = server.resident().saturating_sub(idle);
    println!("left after {} s: {} MiB", IDLE_TIME.as_secs(), left / MIB);
    assert!(left <= LEFT, "{left} bytes, the limit is {LEFT}");
}

/// A body, and what must come of it.
struct Case {
    name: &'static str,
    path: &'static str,
    body: Vec<u8>,
    status: u16,
    says: &'static str,
}

fn cases() -> Vec<Case> {
    let words = "The quick brown fox jumps over the lazy dog. ";
    let refused = |name, path, body: String| Case {
        name,
        path,
        body: body.into_bytes(),
        status: 400,
        says: "context_length_exceeded",
    };
    let prompt = |text: &str| format!(r#"{{"prompt": "{text}"}}"#);
    let ids = format!("[1{}]", ",1".repeat(BODY_BYTES / 2 - 32));
    let content = |text: &str| format!(r#"{{"messages": [{{"role":"user","content":"{text}"}}]}}"#);
    let message = r#"{"role":"user","content":"a"}"#;
    let messages = vec![message; BODY_BYTES / (message.len() + 1) - 8].join(",");
    vec![
        refused("a long text", "/v1/completions", prompt(&filled(words, BODY_BYTES - 32))),
        // Few enough bytes that only its tokens say that it is too long.
        refused("a text of many tokens", "/v1/completions", prompt(&filled("1 a", 600_000))),
        refused("one long word", "/v1/completions", prompt(&filled("abcdefgh", 600_000))),
        refused("one long run", "/v1/completions", prompt(&"a".repeat(600_000))),
        refused("token ids", "/v1/completions", format!(r#"{{"prompt": {ids}}}"#)),
        refused("a long message", "/v1/chat/completions", content(&filled(words, BODY_BYTES - 64))),
        Case {
            name: "many messages",
            path: "/v1/chat/completions",
            body: format!(r#"{{"messages": [{messages}]}}"#).into_bytes(),
            status: 400,
            says: "messages",
        },
        refused(
            "an embedding's input",
            "/v1/embeddings",
            format!(r#"{{"input": "{}"}}"#, filled(words, BODY_BYTES - 32)),
        ),
        Case {
            name: "a text to tokenise",
            path: "/tokenize",
            body: prompt(&filled(words, BODY_BYTES - 32)).into_bytes(),
            status: 200,
            says: "\"count\":",
        },
        Case {
            name: "digits to tokenise",
            path: "/tokenize",
            body: prompt(&filled("1234567890", BODY_BYTES - 32)).into_bytes(),
            status: 200,
            says: "\"count\":",
        },
        Case {
            name: "tokens to detokenise",
            path: "/detokenize",
            body: format!(r#"{{"tokens": {ids}}}"#).into_bytes(),
            status: 200,
            says: "\"text\":",
        },
    ]
}

/// `text` again and again.
fn filled(text: &str, bytes: usize) -> String {
    text.repeat(bytes / text.len())
}

/// A server whose memory is watched.
struct Measured {
    server: ServerProcess,
}

impl Measured {
    /// Idle, and past what the first requests leave behind for all later ones.
    fn start() -> Self {
        let server = Self { server: ServerProcess::start::<&str>(&[]) };
        let prompt = filled("The quick brown fox. ", 16_000);
        let body = format!(r#"{{"prompt": "{prompt}", "max_tokens": 2}}"#);
        for (path, body) in [
            ("/v1/completions", body.as_str()),
            (
                "/v1/chat/completions",
                r#"{"messages": [{"role":"user","content":"hi"}],
                "max_tokens": 2}"#,
            ),
            ("/tokenize", r#"{"prompt": "hi"}"#),
        ] {
            let response = post(server.port(), path, body.as_bytes());
            assert_eq!(response.status, 200, "{}", response.start());
        }
        server
    }

    fn port(&self) -> &str {
        self.server.port()
    }

    fn resident(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most since `reset_peak`.
    fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn reset_peak(&self) {
        let path = format!("/proc/{}/clear_refs", self.server.pid());
        fs::write(path, "5").expect("the kernel lets its peak be reset");
    }

    fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.pid()));
        let status = status.expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).map(str::parse::<u64>);
        kib.expect("the kernel says so").expect("a number") << 10
    }
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Response {
    /// Enough of the body for a message.
    fn start(&self) -> String {
        format!("{} {}", self.status, self.body.chars().take(300).collect::<String>())
    }
}

/// Sends a body and reads the response; tens of megabytes, so without a client's own copies.
fn post(port: &str, path: &str, body: &[u8]) -> Response {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("the server listens");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("the server takes the head");
    stream.write_all(body).expect("the server takes the body");
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).expect("the server answers"), 0, "{head}");
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let mut body = String::new();
    stream.read_to_string(&mut body).expect("the server ends its response");
    Response { status: status.expect("a status"), head: head.to_lowercase(), body }
}
