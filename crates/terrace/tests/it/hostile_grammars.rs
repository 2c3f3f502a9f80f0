//! Grammars that took the server's time and memory: they are refused or followed, in bounded time
//! and memory, and whoever leaves takes the compiler along.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use terrace_testkit::Rng;

use crate::hostile_grammar::{endless, hostile_grammar, twenty_patterns};
use crate::server_process::ServerProcess;

/// For a response on a machine that is busy with other tests.
const DEADLINE: Duration = Duration::from_secs(60);
/// That the server may take beside what it has when it is idle: two grammars that are compiled in
/// it, and the guides that it keeps.
const MORE_MEMORY_KIB: u64 = 768 << 10;
const COMMAND: &str = "compile-grammar";

#[test]
fn twenty_patterns_take_no_minutes_and_no_gigabytes() {
    let server = ServerProcess::start::<&str>(&[]);
    let idle = memory_kib(server.pid());
    let schema = twenty_patterns();
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let (status, error) = send(&server, json!({"response_format": format}));
    check_refusal(status, &error, "response_format.json_schema.schema");
    let function = json!({"name": "f", "parameters": schema});
    let tools = json!([{"type": "function", "function": function}]);
    let (status, error) = send(&server, json!({"tools": tools, "tool_choice": "required"}));
    check_refusal(status, &error, "tools");
    check_goes_on(&server, idle);
}

#[test]
fn hostile_grammars_are_refused_or_followed() {
    let server = ServerProcess::start::<&str>(&[]);
    let idle = memory_kib(server.pid());
    let seeds: Vec<u64> = (0..24).collect();
    thread::scope(|scope| {
        for seeds in seeds.chunks(6) {
            let server = &server;
            scope.spawn(move || {
                for &seed in seeds {
                    let grammar = hostile_grammar(&mut Rng::new(seed));
                    let (status, response) = send(server, grammar.clone());
                    let shown: String = grammar.to_string().chars().take(300).collect();
                    assert!([200, 400, 503].contains(&status), "{status} {response}: {shown}");
                }
            });
        }
    });
    check_goes_on(&server, idle);
    assert!(compilers_of(server.pid()).len() <= 2);
}

#[test]
fn a_limit_that_is_reached_is_named() {
    let server = ServerProcess::start::<&str>(&[]);
    let (status, error) = send(&server, endless());
    assert_eq!(status, 400, "{error}");
    assert_eq!(error["error"]["param"], "guided_grammar");
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("the limit"), "{message}");
}

#[test]
fn a_client_that_leaves_takes_the_compiler_along() {
    let server = ServerProcess::start::<&str>(&[]);
    let client = ask_and_wait_for_compiler(&server);
    drop(client);
    // Well before its own limit of time would end it.
    wait_until(Duration::from_millis(1_500), || compilers_of(server.pid()).is_empty());
}

#[test]
fn a_server_that_is_killed_takes_the_compiler_along() {
    let mut server = ServerProcess::start::<&str>(&[]);
    let _client = ask_and_wait_for_compiler(&server);
    let compilers = compilers_of(server.pid());
    server.kill();
    wait_until(Duration::from_millis(1_500), || {
        compilers.iter().all(|compiler| !is_compiler(*compiler))
    });
}

#[track_caller]
fn check_refusal(status: u16, error: &Value, param: &str) {
    assert_eq!(status, 400, "{error}");
    assert_eq!(error["error"]["param"], param);
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("20 expressions") && message.contains("the limit is"), "{message}");
}

#[track_caller]
fn check_goes_on(server: &ServerProcess, idle_kib: u64) {
    let (status, response) = send(server, json!({"response_format": {"type": "json_object"}}));
    assert_eq!(status, 200, "{response}");
    let now = memory_kib(server.pid());
    assert!(now < idle_kib + MORE_MEMORY_KIB, "{idle_kib} KiB before, {now} KiB now");
}

fn send(server: &ServerProcess, grammar: Value) -> (u16, Value) {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(DEADLINE))
        .http_status_as_error(false)
        .build();
    let url = format!("{}/v1/chat/completions", server.base());
    let request = ureq::Agent::new_with_config(config).post(url);
    let request = request.header("content-type", "application/json");
    let mut response = request.send(body(grammar).to_string()).expect("a response in time");
    let text = response.body_mut().read_to_string().expect("a whole response");
    (response.status().as_u16(), serde_json::from_str(&text).expect("JSON"))
}

fn body(grammar: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4});
    let fields = body.as_object_mut().expect("it was just made");
    fields.extend(grammar.as_object().expect("fields").clone());
    body
}

/// Sends a grammar that takes long and returns while it is compiled.
fn ask_and_wait_for_compiler(server: &ServerProcess) -> TcpStream {
    let address = server.base().strip_prefix("http://").expect("a plain address");
    let mut client = TcpStream::connect(address).expect("it listens");
    let body = body(endless()).to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.write_all((head + &body).as_bytes()).expect("it reads");
    wait_until(DEADLINE, || !compilers_of(server.pid()).is_empty());
    client
}

#[track_caller]
fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < limit, "still not so after {limit:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Processes that a server has started to compile grammars.
fn compilers_of(server: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("it is there").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|&id| parent_of(id) == Some(server) && is_compiler(id)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it may have blanks in it.
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

fn is_compiler(process: u32) -> bool {
    let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(COMMAND)
}

fn memory_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}
