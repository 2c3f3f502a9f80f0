//! The real OpenAI client against the server; the checks themselves are in `tools/tests`.

use std::path::Path;
use std::process::Command;

use crate::certificate::Certificate;
use crate::server_process::{ServerProcess, small_model};

/// A test for each script, against a server with these arguments.
macro_rules! scripts {
    ($($test:ident: $script:literal, $server_args:expr;)*) => {
        $(
            #[test]
            fn $test() {
                check($script, $server_args);
            }
        )*
    };
}

scripts! {
    every_option_both_sides_know: "openai_client.py", &[];
    outputs_have_the_requested_format: "structured_output.py", &[];
    sixty_four_streams_leave_no_page_behind: "concurrent_streams.py", &[];
    a_full_queue_refuses_the_next: "queue_limit.py", &["--max-batch-size=1", "--max-waiting=1"];
    a_late_request_is_cut_short: "time_limit.py", &["--request-seconds", "1"];
    keys_are_required: "api_key.py", &["--api-key", "first", "--api-key", "second"];
    the_document_is_openapi: "openapi_document.py", &[];
    texts_are_embedded: "embeddings.py", &[];
    two_thousand_idle_connections_and_two_hundred_active_ones: "many_connections.py", &[];
    half_closed_clients_are_answered_and_gone_ones_cancelled: "half_close.py", &[];
}

#[test]
fn two_models_output_what_each_would_alone() {
    let second = format!("second={}", small_model().display());
    check("two_models.py", &["--model", &second]);
}

/// The package trusts the certificate because `SSL_CERT_FILE` names it.
#[test]
fn an_encrypted_server_is_spoken_to() {
    check_encrypted("encrypted.py");
}

#[test]
fn http2_is_spoken_over_tls() {
    check_encrypted("http2.py");
}

#[track_caller]
fn check_encrypted(script: &str) {
    let certificate = Certificate::new();
    let server = ServerProcess::start(&certificate.options());
    assert!(server.base().starts_with("https://"), "{}", server.base());
    let mut client = client(script, &server);
    client.env("SSL_CERT_FILE", certificate.certificate());
    run(client);
}

#[track_caller]
fn check(script: &str, server_args: &[&str]) {
    let server = ServerProcess::start(server_args);
    run(client(script, &server));
}

pub fn client(name: &str, server: &ServerProcess) -> Command {
    let mut client = script(name);
    client.arg(server.base());
    client
}

/// One of `tools/tests`, without its arguments.
pub fn script(name: &str) -> Command {
    let python = std::env::var_os("TERRACE_TEST_PYTHON")
        .expect("TERRACE_TEST_PYTHON names no Python with the openai package: run `make test`");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/tests").join(name);
    let mut script = Command::new(python);
    // Leaves no compiled files in the tree.
    script.arg("-B").arg(path);
    script
}

#[track_caller]
pub fn run(mut client: Command) {
    let status = client.status().expect("TERRACE_TEST_PYTHON starts");
    assert!(status.success(), "the client's checks failed; they are above");
}
