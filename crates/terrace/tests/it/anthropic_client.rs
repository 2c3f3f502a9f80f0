//! The real Anthropic client against the server; the checks themselves are in `tools/tests`.

use crate::openai_client::{client, run};
use crate::server_process::ServerProcess;

#[test]
fn messages_are_created_streamed_and_counted() {
    let server = ServerProcess::start(&["--api-key", "secret"]);
    run(client("anthropic_client.py", &server));
}
