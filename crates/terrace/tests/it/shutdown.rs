//! What happens to running answers when the server is told to stop.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

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

fn server_in_the_middle_of_a_stream(args: &[&str], new_tokens: usize) -> (ServerProcess, Stream) {
    let server = ServerProcess::start(args);
    let mut stream = Stream::open(&server, new_tokens);
    for _ in 0..3 {
        stream.next_event().expect("the stream has begun");
    }
    (server, stream)
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
        let mut curl = Command::new("curl")
            .args(["--no-buffer", "--silent", "--header", "Content-Type: application/json"])
            .args(["--data", &body, &format!("{}/completion", server.base())])
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a curl command");
        let output = BufReader::new(curl.stdout.take().expect("its output is piped"));
        Self { curl, output }
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
