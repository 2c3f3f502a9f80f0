//! Models of the hub, from a server that stands in for it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use terrace_testkit::TinyModel;

use crate::hub_stand_in::{COMMIT, HubStandIn};

/// A hub, and a machine with an empty cache.
struct Machine {
    hub: HubStandIn,
    home: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let tiny = TinyModel::new().files();
        let gguf = |name: &str| (name.to_owned(), b"GGUF".to_vec());
        let hub = HubStandIn::start(vec![
            ("org/tiny", tiny.clone()),
            ("private/tiny", tiny),
            ("org/ggufs", vec![gguf("a.gguf"), gguf("b.gguf")]),
            ("org/words", vec![("README.md".to_owned(), b"words".to_vec())]),
        ]);
        Self { hub, home: tempfile::tempdir().expect("a folder") }
    }

    fn terrace(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(arguments).env("HF_HOME", self.home.path()).env("NO_PROXY", "127.0.0.1");
        command.env("HF_ENDPOINT", self.hub.endpoint()).env_remove("HF_TOKEN");
        command
    }

    #[track_caller]
    fn check_refused(&self, arguments: &[&str], wants: &[&str]) {
        let output = self.terrace(arguments).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{error}");
        for want in wants {
            assert!(error.contains(want), "{want} is not in {error}");
        }
    }
}

#[track_caller]
fn printed(output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

const GENERATE: [&str; 6] =
    ["generate", "hello", "--max-new-tokens", "4", "--device=cpu", "--model"];

#[test]
fn a_model_is_pulled_once_and_then_needs_no_hub() {
    let machine = Machine::new();
    let generate = [&GENERATE[..], &["org/tiny"]].concat();
    let first = printed(machine.terrace(&generate).output().expect("it runs"));
    assert!(machine.hub.requests().iter().any(|path| path.ends_with("/model.safetensors")));

    let second = printed(machine.terrace(&generate).output().expect("it runs"));
    assert_eq!(second, first);
    assert_eq!(machine.hub.requests(), Vec::<String>::new());

    // The mark that only this client leaves.
    let refs = machine.home.path().join("hub/models--org--tiny/refs");
    fs::remove_file(refs.join(COMMIT)).expect("a mark");
    let folder = printed(machine.terrace(&["pull", "org/tiny"]).output().expect("it runs"));
    let requested = machine.hub.requests();
    assert_eq!(
        requested,
        ["/api/models/org/tiny/revision/main"],
        "only whether there is a newer one"
    );
    for (name, bytes) in TinyModel::new().files() {
        assert_eq!(fs::read(PathBuf::from(&folder).join(name)).expect("it was pulled"), bytes);
    }
}

#[test]
fn a_token_opens_what_is_private() {
    let machine = Machine::new();
    machine.check_refused(&["pull", "private/tiny"], &["private/tiny", "HF_TOKEN", "401"]);
    let mut command = machine.terrace(&["pull", "private/tiny"]);
    printed(command.env("HF_TOKEN", "secret").output().expect("it runs"));
}

#[test]
fn one_of_several_ggufs_is_named() {
    let machine = Machine::new();
    machine.check_refused(&["pull", "org/ggufs"], &["a.gguf, b.gguf"]);
    let file = printed(machine.terrace(&["pull", "org/ggufs:b.gguf"]).output().expect("it runs"));
    assert!(file.ends_with("/b.gguf"), "{file}");
    assert_eq!(fs::read(file).expect("it was pulled"), b"GGUF");
}

#[test]
fn what_cannot_be_had_says_what_was_tried() {
    let machine = Machine::new();
    let endpoint = machine.hub.endpoint();
    let none = [&GENERATE[..], &["org/none"]].concat();
    machine.check_refused(&none, &["no such file or folder", &endpoint, "org/none", "404"]);
    machine.check_refused(&["pull", "org/words"], &["org/words", "no config.json"]);
    machine.check_refused(&["pull", "gpt"], &["known: smollm2-135m-instruct", "ORG/NAME"]);
    let mut offline = machine.terrace(&["pull", "org/tiny"]);
    let output = offline.env("HF_HUB_OFFLINE", "1").output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("HF_HUB_OFFLINE is set"), "{error}");
}
