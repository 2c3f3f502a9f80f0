//! The Responses API through the real OpenAI client; the checks are in `tools/tests`.

use crate::openai_client::{client, run};
use crate::server_process::ServerProcess;

#[test]
fn responses_are_made_streamed_parsed_and_stored() {
    let server = ServerProcess::start::<&str>(&[]);
    run(client("responses.py", &server));
}

#[test]
fn a_stored_response_is_its_keys_own() {
    let server = ServerProcess::start(&["--api-key", "first", "--api-key", "second"]);
    run(client("responses_keys.py", &server));
}
