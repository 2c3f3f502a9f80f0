//! What a shell sees of the program: its status, and where it complains.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};

fn terrace(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.args(arguments);
    command
}

#[test]
fn a_port_in_use_is_reported_before_a_model_is_opened() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let arguments = ["serve", "--port", &port, "--model", "no-such-model"];
    let output = terrace(&arguments).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{error}");
}

#[test]
fn a_reader_that_leaves_is_no_error_to_speak_of() {
    let mut child = terrace(&["selftest"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut first = [0; 16];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some output");
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn wrong_tls_files_are_reported_before_a_model_is_opened() {
    let serve = ["serve", "--port", "0", "--model", "no-such-model"];
    for (files, want) in [
        (&["--ssl-certfile", "none.pem"][..], "--ssl-certfile needs its key: add --ssl-keyfile"),
        (&["--ssl-keyfile", "none.key"], "--ssl-keyfile needs its certificate"),
        (
            &["--ssl-certfile", "none.pem", "--ssl-keyfile", "none.key"],
            "cannot use none.pem for TLS: No such file",
        ),
    ] {
        let output = terrace(&[&serve[..], files].concat()).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn a_wrong_number_is_said_before_a_model_is_opened() {
    for arguments in [
        &["serve", "--port", "0", "--temperature", "-1"][..],
        &["generate", "--temperature", "-1", "once"],
        &["chat", "--temp", "-1"],
    ] {
        let arguments = [arguments, &["--model", "no-such-model"]].concat();
        let output = terrace(&arguments).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        let want = "invalid value '-1' for '--temperature <FACTOR>': it must be a finite number, \
                    at least 0";
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn a_flag_of_another_server_is_answered_with_what_to_do_here() {
    let output = terrace(&["serve", "a-model", "-tp", "2"]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.starts_with("error: -tp 2: a model runs on one device"), "{error}");
}

#[test]
fn an_adapter_acts_and_one_that_does_not_fit_is_named() {
    let model = terrace_testkit::TinyModel::new();
    let model = model.path();
    let adapters = terrace_testkit::golden_set("adapters");
    let run = |adapter: Option<&str>| {
        let adapter = adapter.map(|name| format!("--adapter={}", adapters.join(name).display()));
        let generate = ["generate", "--token-ids", "--max-new-tokens", "8", "--dtype", "fp32"];
        let mut command = terrace(&generate);
        command.args(["--model", model.to_str().expect("a plain path"), "once"]).args(adapter);
        command.output().expect("it runs")
    };
    let [plain, lora, again, norm] =
        [None, Some("lora"), Some("lora"), Some("written_dora")].map(run);
    for output in [&plain, &lora, &again, &norm] {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(lora.stdout, again.stdout);
    assert!(lora.stdout != plain.stdout && lora.stdout != norm.stdout, "{lora:?}");
    let other = run(Some("lora_layers"));
    let error = String::from_utf8_lossy(&other.stderr);
    assert_eq!(other.status.code(), Some(1), "{error}");
    assert!(error.contains("adapter_model.safetensors") && error.contains("k_proj"), "{error}");
}

#[test]
fn an_adapter_that_cannot_act_is_refused() {
    let ranker = terrace_testkit::TinyRanker::new(3);
    let ranker = ranker.path();
    let ranker = ranker.to_str().expect("a plain path");
    for (arguments, want) in [
        (&["serve", "--port", "0", ranker][..], "--adapter is of language models"),
        (
            &["serve", "--port", "0", "--model", "a=x", "--model", "b=y"],
            "--adapter is of one model, 2 are served",
        ),
        (
            &["bench", "llm", "--shape", "smollm2-135m", "--random-weights"],
            "a shape has random weights",
        ),
    ] {
        let arguments = [arguments, &["--adapter", "no-such-folder"]].concat();
        let output = terrace(&arguments).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn a_recommender_is_refused_where_it_cannot_act() {
    let model = terrace_testkit::TinyRanker::new(4);
    let folder = model.path();
    let path = folder.to_str().expect("a plain name");
    let output = terrace(&["generate", "-m", path, "hello"]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("is a recommender: `terrace serve` ranks with it"), "{error}");

    let config = std::fs::read_to_string(folder.join("config.json")).expect("readable");
    let sequential = config.replace("\"nvidia\"", "\"sequential\"");
    std::fs::write(folder.join("config.json"), sequential).expect("writable");
    let output = terrace(&["serve", "--port", "0", path]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("sequential do not rank candidates"), "{error}");
}

#[test]
fn a_file_of_ranking_requests_is_scored_line_by_line() {
    let model = terrace_testkit::TinyRanker::new(3);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("requests.jsonl");
    let request = r#"{"user": "anna", "context": [1, 2], "items": [1001, 1002, 1003],
        "actions": [0, 4, 8], "candidates": [1004, 1005]}"#;
    let request = request.replace('\n', " ");
    std::fs::write(&file, format!("{request}\n\n{request}\n")).expect("writable");
    let model = model.path();
    let [file, model] = [&file, &model].map(|path| path.to_str().expect("plain names"));
    let output = terrace(&["rank", "score", file, "--model", model]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let cached: Vec<_> = lines.iter().map(|line| &line["cached_tokens"]).collect();
    assert_eq!(cached, [0, 8], "{text}");
    assert_eq!(lines[0]["scores"], lines[1]["scores"]);
    assert_eq!(lines[0]["scores"][1]["candidate"], 1005);
    assert_eq!(lines[0]["scores"][1]["probabilities"].as_array().map(Vec::len), Some(3));

    std::fs::write(file, request.replace("1003", "-4")).expect("writable");
    let output = terrace(&["rank", "score", file, "--model", model]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("line 1 of") && error.contains("the id -4"), "{error}");
}

#[test]
fn a_file_of_retrieval_requests_is_answered_line_by_line() {
    let model = terrace_testkit::TinyRanker::retrieval(3);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("requests.jsonl");
    let model = model.path();
    let [file, model] = [&file, &model].map(|path| path.to_str().expect("plain names"));
    let answer = |request: &str| {
        std::fs::write(file, request).expect("writable");
        let output = terrace(&["rank", "retrieve", file, "--model", model]).output();
        let output = output.expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let request =
        r#"{"user": "anna", "context": [1, 2], "items": [1001, 1002], "actions": [0, 4]}"#;
    let (code, found, error) = answer(request);
    assert_eq!(code, Some(0), "{error}");
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    let items: Vec<&serde_json::Value> =
        found["items"].as_array().expect("items").iter().map(|it| &it["item"]).collect();
    assert_eq!(items.len(), 10, "{found}");
    assert!(!items.contains(&&serde_json::json!(1001)), "what was seen is left out");
    let (code, _, error) = answer(&request.replace("actions", "candidates"));
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("line 1 of") && error.contains("unknown field \"candidates\""),
        "{error}"
    );
}
