//! NVIDIA's clients for Triton against the server; the checks themselves are in `tools/tests`.

use terrace_server::kserve::messages::DESCRIPTORS;
use terrace_testkit::{KafkaBroker, TinyRanker, golden_set};

use crate::certificate::Certificate;
use crate::openai_client::{client, run, script};
use crate::server_process::ServerProcess;

#[test]
fn messages_are_those_of_the_client() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("descriptors.bin");
    std::fs::write(&file, DESCRIPTORS).expect("it is writable");
    let mut script = script("kserve_protocol.py");
    script.arg(file);
    run(script);
}

#[test]
fn tables_and_recommenders_answer_tritons_clients() {
    let model = TinyRanker::new(21);
    let mut script = script("kserve_client.py");
    script.arg(env!("CARGO_BIN_EXE_terrace")).arg(model.path());
    run(script);
}

#[test]
fn grpc_is_spoken_over_tls() {
    let certificate = Certificate::new();
    let server = ServerProcess::start(&certificate.options());
    let mut client = client("kserve_encrypted.py", &server);
    client.env("SSL_CERT_FILE", certificate.certificate());
    run(client);
}

#[test]
fn click_through_models_answer_tritons_clients() {
    let mut script = script("ctr_client.py");
    script.arg(env!("CARGO_BIN_EXE_terrace")).arg(golden_set("ctr"));
    run(script);
}

#[test]
fn click_through_models_are_updated_over_kafka() {
    let broker = KafkaBroker::start(&["hps_et.dlrm.sparse_embedding1", "hps_dense.dlrm"]);
    let mut script = script("ctr_updates.py");
    script.arg(env!("CARGO_BIN_EXE_terrace")).arg(golden_set("ctr"));
    script.arg(broker.address());
    run(script);
}
