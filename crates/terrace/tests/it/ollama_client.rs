//! The real Ollama client against the server; the checks themselves are in `tools/tests`.

use crate::openai_client::{client, run};
use crate::server_process::ServerProcess;

#[test]
fn every_call_that_has_something_to_do_here() {
    let server = ServerProcess::start::<&str>(&[]);
    run(client("ollama_client.py", &server));
}
