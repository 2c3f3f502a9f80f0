//! What happens to running requests when the server is stopped.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::certificate::Certificate;
use crate::server_process::ServerProcess;

#[test]
fn a_running_stream_may_end() {
    let (mut server, mut stream) =
        server_in_the_middle_of_a_stream(&["--drain-seconds", "300"], 60);
    server.terminate();
    assert_eq!(stream.last_event(), "[DONE]");
    assert!(server.wait().success());
}

#[test]
fn after_the_drain_streams_end_with_an_error() {
    let (mut server, mut stream) = server_in_the_middle_of_a_stream(&["--drain-seconds", "0"], 900);
    server.terminate();
    let last = stream.last_event();
    assert!(last.contains("server_stopping"), "{last}");
    assert!(server.wait().success());
}

#[test]
fn a_running_http2_stream_may_end() {
    let certificate = Certificate::new();
    let drain = ["--drain-seconds".to_owned(), "300".to_owned()];
    let mut server = ServerProcess::start(&[&certificate.options()[..], &drain].concat());
    let mut stream = Stream::open(&server, 60);
    stream.skip_events(3);
    server.terminate();
    assert_eq!(stream.last_event(), "[DONE]");
    assert!(server.wait().success());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let log = tempfile::NamedTempFile::new().expect("a temporary file");
    let said = || fs::read_to_string(log.path()).expect("text");
    let errors = log.reopen().expect("a second handle").into();
    let mut server = ServerProcess::start_saying_to(&["--drain-seconds", "3000"], errors);
    let mut stream = Stream::open(&server, 8000);
    stream.skip_events(3);
    server.terminate();
    // A second signal that comes before the first was taken would be one with it.
    while !said().contains("stopping") {
        stream.skip_events(1);
    }
    server.terminate();
    assert_eq!(server.wait().code(), Some(128 + 15));
    assert!(said().ends_with("running requests are cut off\n"), "{}", said());
}

/// Compiling this grammar takes a thread for minutes, where nothing bounds it.
#[test]
fn work_that_blocks_does_not_hold_up_the_end() {
    let mut server = ServerProcess::start(&["--drain-seconds", "1"]);
    let patterns =
        (20..40).map(|count| format!(r#"{{"type":"string","pattern":".*a.{{{count}}}"}}"#));
    let schema = format!(r#"{{"allOf":[{}]}}"#, patterns.collect::<Vec<_>>().join(","));
    let form = r#"{"type":"json_schema","json_schema":{"name":"a","schema":"#;
    let messages = r#"[{"role":"user","content":"Hi"}]"#;
    let body = format!(r#"{{"messages":{messages},"response_format":{form}{schema}}}}}}}"#);
    let mut curl = curl(&server, "/v1/chat/completions", &body).spawn().expect("there is a curl");
    // The work has begun, or has been refused.
    std::thread::sleep(std::time::Duration::from_secs(2));
    server.terminate();
    assert!(server.wait().success());
    curl.wait().expect("it was started here");
}

fn server_in_the_middle_of_a_stream(args: &[&str], new_tokens: usize) -> (ServerProcess, Stream) {
    let server = ServerProcess::start(args);
    let mut stream = Stream::open(&server, new_tokens);
    stream.skip_events(3);
    (server, stream)
}

/// `--insecure` for a server with a certificate of its own, which curl speaks HTTP/2 with.
fn curl(server: &ServerProcess, path: &str, body: &str) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--no-buffer", "--silent", "--insecure"])
        .args(["--header", "Content-Type: application/json"])
        .args(["--data", body, &format!("{}{path}", server.base())])
        .stdout(Stdio::piped());
    curl
}

/// A completion as `curl` receives it.
struct Stream {
    curl: Child,
    output: BufReader<ChildStdout>,
}

impl Stream {
    fn open(server: &ServerProcess, new_tokens: usize) -> Self {
        let options = r#""stream": true, "ignore_eos": true"#;
        let body = format!(r#"{{"prompt": "once", {options}, "max_new_tokens": {new_tokens}}}"#);
        let mut curl = curl(server, "/completion", &body).spawn().expect("there is a curl command");
        let output = BufReader::new(curl.stdout.take().expect("its output is piped"));
        Self { curl, output }
    }

    fn skip_events(&mut self, count: usize) {
        for _ in 0..count {
            self.next_event().expect("the stream goes on");
        }
    }

    fn next_event(&mut self) -> Option<String> {
        let mut lines = self.output.by_ref().lines();
        lines.find_map(|line| Some(line.ok()?.strip_prefix("data: ")?.to_owned()))
    }

    fn last_event(&mut self) -> String {
        std::iter::from_fn(|| self.next_event()).last().expect("the stream was not at its end")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // It has ended already if the test went well.
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}
