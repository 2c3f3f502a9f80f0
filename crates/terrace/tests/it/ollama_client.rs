//! The real Ollama client against the server; the checks themselves are in `tools/tests`.

use crate::openai_client::{client, run};
use crate::server_process::ServerProcess;

#[test]
fn every_call_that_has_something_to_do_here() {
    // One input is cut to what the server takes; with the model's whole context that alone is
    // minutes of work on slow processors.
    let server = ServerProcess::start(&["--max-input-len", "2048"]);
    run(client("ollama_client.py", &server));
}
