//! Handles of a running server: kept over restarts, sent as files, used by the command line.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use terrace_testkit::TinyModel;

use crate::openai_client::{client, run};
use crate::server_process::ServerProcess;

const DOCUMENT: &str = "The quick brown fox jumps over the lazy dog and does not look back, for \
                        the dog is asleep and the fox has far to go before the night.";
const QUESTION: &str = " Who sleeps?";

struct Setup {
    folder: TempDir,
    model: TinyModel,
}

impl Setup {
    fn new() -> Self {
        Setup { folder: tempfile::tempdir().expect("a folder"), model: TinyModel::new() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A server with a disk tier in the folder of that name.
    fn serve(&self, tier: &str, args: &[&str]) -> ServerProcess {
        let disk = format!("disk={},64MiB", self.path(tier));
        let mut all = vec!["--kv-tier", "host=64MiB", "--kv-tier", &disk];
        all.extend(args);
        ServerProcess::serving(&self.model.path(), &all)
    }
}

fn cache(server: &ServerProcess, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    let (what, rest) = args.split_first().expect("a subcommand");
    command.args(["cache", what, "--url", server.base()]).args(rest);
    command.output().expect("it runs")
}

#[track_caller]
fn done(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr.clone()).expect("text")
}

#[track_caller]
fn complete(server: &ServerProcess, fields: Value) -> Value {
    let body = json!({
        "max_tokens": 16, "temperature": 0, "ignore_eos": true, "return_token_ids": true,
    });
    server.complete(body, &fields)
}

/// The ids of the output that goes on from a handle.
#[track_caller]
fn warm(server: &ServerProcess, handle: &str) -> Value {
    let response = complete(server, json!({"prompt": QUESTION, "kv_cache": {"handle": handle}}));
    let ids = &response["choices"][0]["token_ids"];
    assert!(ids.is_array(), "{response}");
    ids.clone()
}

/// The ids of the same output, computed from the first token on.
#[track_caller]
fn cold(server: &ServerProcess) -> Value {
    let prompt = format!("{DOCUMENT}{QUESTION}");
    let response = complete(server, json!({"prompt": prompt, "cache_prompt": false}));
    let ids = &response["choices"][0]["token_ids"];
    assert!(ids.is_array(), "{response}");
    ids.clone()
}

#[test]
fn a_handle_outlives_its_server_and_travels_as_a_file() {
    let setup = Setup::new();
    let document = setup.path("document.txt");
    fs::write(&document, DOCUMENT).expect("the folder is writable");
    let mut server = setup.serve("first", &[]);
    let saved = done(&cache(&server, &["save", "--prompt-file", &document, "--name", "document"]));
    assert!(saved.contains("saved document") && saved.contains("\"handle\": \"document\""));
    let expected = cold(&server);
    assert_eq!(warm(&server, "document"), expected, "in the same process");

    server.terminate();
    assert!(server.wait().success());
    let server = setup.serve("first", &[]);
    assert_eq!(warm(&server, "document"), expected, "after a restart");
    let list = done(&cache(&server, &["list"]));
    assert!(list.lines().count() == 2 && list.contains("document"), "{list}");
    let shown: Value =
        serde_json::from_str(&done(&cache(&server, &["show", "document", "--json"])))
            .expect("JSON");
    assert_eq!((&shown["durable"], &shown["imported"]), (&json!(true), &json!(false)));

    let file = setup.path("document.kv");
    done(&cache(&server, &["export", "document", &file]));
    let again = refused(&cache(&server, &["export", "document", &file]));
    assert!(again.contains("exists"), "{again}");
    done(&cache(&server, &["rm", "document"]));
    let gone = refused(&cache(&server, &["show", "document"]));
    assert!(gone.contains("there is no handle \"document\""), "{gone}");
    done(&cache(&server, &["import", &file, "--name", "copy"]));
    assert_eq!(warm(&server, "copy"), expected, "imported");
    drop(server);

    let other = setup.serve("second", &[]);
    done(&cache(&other, &["import", &file]));
    assert_eq!(warm(&other, "document"), expected, "on another server");
    check_bad_file(&other, &setup.path("bad.kv"));
}

#[track_caller]
fn check_bad_file(server: &ServerProcess, path: &str) {
    fs::write(Path::new(path), "no handle").expect("the folder is writable");
    let error = refused(&cache(server, &["import", path]));
    assert!(error.contains("status 400"), "{error}");
}

#[test]
fn keys_keep_handles_apart_over_a_restart() {
    let setup = Setup::new();
    let mut server = setup.serve("tier", &["--api-key", "anne", "--api-key", "bert"]);
    let save = ["save", "--prompt", DOCUMENT, "--name", "document", "--api-key", "anne"];
    done(&cache(&server, &save));
    let list =
        |server: &ServerProcess, key: &str| done(&cache(server, &["list", "--api-key", key]));
    assert!(list(&server, "bert").contains("No handles yet"));
    let error = refused(&cache(&server, &["list"]));
    assert!(error.contains("give --api-key"), "{error}");
    server.terminate();
    assert!(server.wait().success());
    // The keys in another order: a handle belongs to the key, not to its place.
    let server = setup.serve("tier", &["--api-key", "bert", "--api-key", "anne"]);
    assert!(list(&server, "bert").contains("No handles yet"));
    assert!(list(&server, "anne").contains("document"));
}

#[test]
fn the_openai_client_goes_on_from_a_handle() {
    let server = ServerProcess::start(&["--kv-tier", "host=256MiB"]);
    run(client("kv_handles.py", &server));
}

#[test]
fn no_server_is_an_error_with_what_to_do() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    let error = refused(&command.args(["cache", "list", "--url", &url]).output().expect("it runs"));
    assert!(error.contains("terrace serve") && error.contains("--url"), "{error}");
}
