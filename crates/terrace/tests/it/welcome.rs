//! What the server prints at its start: a line to try, run through a shell as it stands, and where
//! its memory is smaller than its context.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use terrace_testkit::TinyModel;

use crate::certificate::Certificate;

/// A server of tiny models, and all it printed up to the end of the line to try.
struct Started {
    child: Child,
    printed: String,
}

impl Started {
    /// Serves on a free port with these arguments.
    fn new(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
            .args(["serve", "--port", "0", "--threads", "1"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut printed = String::new();
        for line in output.lines().map_while(Result::ok) {
            printed.push_str(&line);
            printed.push('\n');
            if line.starts_with("    -d ") {
                return Self { child, printed };
            }
        }
        let status = child.wait().expect("it was started here");
        panic!("terrace serve ended before it listened: {status}; its messages are above");
    }

    /// The response to the line to try, as a user gets it who sets the variable it names.
    #[track_caller]
    fn tried(&self, key: &str) -> Value {
        let (_, line) = self.printed.split_once("  curl ").expect("a line to try");
        let output = Command::new("sh")
            .args(["-c", &format!("curl --silent --show-error {line}")])
            .env("TERRACE_API_KEY", key)
            .output()
            .expect("there is a shell");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", self.printed);
        serde_json::from_slice(&output.stdout).expect("a response is JSON")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already; both are well then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Few tokens: the line to try sets no limit of its own.
const SHORT: [&str; 2] = ["--max-output-len", "4"];

#[track_caller]
fn check(args: &[&str], key: &str, model: &str) -> Started {
    let tiny = TinyModel::new();
    let path = tiny.path();
    let path = path.to_str().expect("a plain path");
    let args: Vec<String> = args.iter().map(|arg| arg.replace("TINY", path)).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).chain(SHORT).collect();
    let server = Started::new(&args);
    let response = server.tried(key);
    assert_eq!(response["model"], model, "{response}");
    assert!(response["choices"][0]["finish_reason"].is_string(), "{response}");
    server
}

#[test]
fn the_line_to_try_works_with_a_model_of_any_name() {
    check(&["TINY", "--served-model-name", "it's \"one\""], "", "it's \"one\"");
}

#[test]
fn the_line_to_try_works_with_several_models() {
    check(&["--model", "first=TINY", "--model", "second=TINY"], "", "first");
}

#[test]
fn the_line_to_try_works_with_a_key_and_does_not_print_it() {
    let args = ["--model", "a=TINY", "--api-key", "a-secret", "--host", "0.0.0.0"];
    let server = check(&args, "a-secret", "a");
    assert!(!server.printed.contains("a-secret"), "{}", server.printed);
    assert!(server.printed.contains("export TERRACE_API_KEY="), "{}", server.printed);
    let refused = server.tried("another");
    assert_eq!(refused["error"]["code"], "invalid_api_key", "{refused}");
}

#[test]
fn the_line_to_try_works_with_a_certificate_that_nobody_vouches_for() {
    let options = Certificate::new();
    let files = options.options();
    let files = files.iter().map(String::as_str);
    let args: Vec<&str> = ["--model", "a=TINY"].into_iter().chain(files).collect();
    check(&args, "", "a");
}

#[test]
fn a_pool_smaller_than_the_context_is_said_with_the_numbers() {
    let server = check(&["--model", "a=TINY", "--kv-memory", "64KiB"], "", "a");
    let printed = &server.printed;
    assert!(printed.contains("note     the kv pool holds "), "{printed}");
    assert!(printed.contains("Give --kv-memory 1MiB or more"), "{printed}");
    assert!(printed.contains("--max-context-len "), "{printed}");
    let server = check(&["--model", "a=TINY"], "", "a");
    assert!(!server.printed.contains("note "), "{}", server.printed);
}
