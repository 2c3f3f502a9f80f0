//! The real OpenAI client against the server; the checks themselves are in `tools/tests`.

use std::path::Path;
use std::process::Command;

use crate::server_process::ServerProcess;

#[test]
fn every_option_both_sides_know() {
    check("openai_client.py", &[]);
}

#[test]
fn sixty_four_streams_leave_no_page_behind() {
    check("concurrent_streams.py", &[]);
}

#[test]
fn a_full_queue_refuses_the_next() {
    check("queue_limit.py", &["--max-batch-size", "1", "--max-waiting", "1"]);
}

#[test]
fn a_late_answer_is_cut_short() {
    check("time_limit.py", &["--request-seconds", "1"]);
}

#[test]
fn keys_are_asked_for() {
    check("api_key.py", &["--api-key", "first", "--api-key", "second"]);
}

#[test]
fn the_document_is_openapi() {
    check("openapi_document.py", &[]);
}

#[track_caller]
fn check(script: &str, server_args: &[&str]) {
    let python = std::env::var_os("TERRACE_TEST_PYTHON")
        .expect("TERRACE_TEST_PYTHON names no Python with the openai package: run `make test`");
    let server = ServerProcess::start(server_args);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/tests").join(script);
    let status = Command::new(python)
        .arg("-B") // leaves no compiled files in the tree
        .arg(script)
        .arg(server.base())
        .status()
        .expect("TERRACE_TEST_PYTHON starts");
    assert!(status.success(), "the client's checks failed; they are above");
}
