//! The commands of ColossalAI-Inference's manual, as they stand there but for the port.

use std::process::Command;

use serde_json::{Value, json};

use crate::server_process::ServerProcess;

/// As the shell hands it over: `\n` is still two characters.
const CHAT_TEMPLATE: &str = concat!(
    r"{% for message in messages %}",
    r"{{'<|im_start|>'+message['role']+'\n'+message['content']+'<|im_end|>'+'\n'}}",
    r"{% endfor %}",
);

const COMPLETION: &str = concat!(
    "curl -X POST  http://127.0.0.1:8000/completion  -H 'Content-Type: application/json'  ",
    r#"-d '{"prompt":"hello, who are you? "}'"#,
);

const CHAT: &str = concat!(
    "curl -X POST http://127.0.0.1:8000/chat -H 'Content-Type: application/json' ",
    r#"-d '{"messages":[{"role":"system","content":"you are a helpful assistant"},"#,
    r#"{"role":"user","content":"what is 1+1?"}]}'"#,
);

const ENGINE_CHECK: &str = "curl http://localhost:8000/engine_check";

#[test]
fn the_manual_holds() {
    // Without a limit of its own a request may write to the end; here that shall be near.
    let args = ["--chat-template", CHAT_TEMPLATE, "--max-output-len", "24"];
    let server = ServerProcess::start(&args);
    assert_eq!(run(&server, ENGINE_CHECK), json!({"status": "Running"}));
    assert_eq!(run(&server, "curl http://127.0.0.1:8000/ping"), json!({"status": "Healthy"}));

    let completion = run(&server, COMPLETION);
    assert_eq!(names(&completion), ["request_id", "text"]);
    assert!(!text(&completion, "text").is_empty(), "{completion}");
    assert_eq!(text(&run(&server, COMPLETION), "text"), text(&completion, "text"), "it is greedy");

    let chat = run(&server, CHAT);
    assert_eq!(names(&chat), ["role", "text"]);
    assert_eq!(text(&chat, "role"), "assistant");
    assert!(!text(&chat, "text").is_empty(), "{chat}");
}

#[test]
fn the_models_own_template_works_too() {
    let server = ServerProcess::start::<&str>(&[]);
    let response = run(&server, CHAT);
    assert_eq!(text(&response, "role"), "assistant");
    assert!(text(&response, "text").contains('2'), "{response}");
}

#[test]
fn streams_come_token_by_token() {
    let server = ServerProcess::start::<&str>(&[]);
    let whole = run(&server, &with_fields(COMPLETION, r#""max_new_tokens": 12"#));
    let events =
        events(&server, &with_fields(COMPLETION, r#""max_new_tokens": 12, "stream": true"#));
    assert!(events.len() >= 8, "not token by token: {events:?}");
    let streamed: String = events.iter().map(|event| text(event, "text")).collect();
    assert_eq!(streamed, text(&whole, "text"));

    let fields = r#""max_new_tokens": 12, "stream": "true""#;
    let events = self::events(&server, &with_fields(CHAT, fields));
    assert_eq!(events[0], json!({"index": 0, "message": {"role": "assistant"}}));
    let whole = run(&server, &with_fields(CHAT, r#""max_new_tokens": 12"#));
    let streamed: String = events[1..].iter().map(|event| text(event, "content")).collect();
    assert_eq!(streamed, text(&whole, "text"));
}

#[test]
fn without_a_generation_prompt_the_last_message_goes_on() {
    let server = ServerProcess::start::<&str>(&[]);
    let fields = r#""max_new_tokens": 4, "add_generation_prompt": false, "echo": true"#;
    let response = run(&server, &with_fields(CHAT, fields));
    assert_eq!(text(&response, "role"), "user");
    assert!(text(&response, "text").starts_with("what is 1+1?"), "{response}");
}

/// Runs a line of the manual against the server, in a shell.
#[track_caller]
fn shell(server: &ServerProcess, line: &str) -> String {
    let line = line.replace(":8000", &format!(":{}", server.port()));
    let output = Command::new("sh").args(["-c", &line]).output().expect("there is a shell");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("responses are UTF-8")
}

#[track_caller]
fn run(server: &ServerProcess, line: &str) -> Value {
    let response = shell(server, line);
    serde_json::from_str(&response).unwrap_or_else(|error| panic!("{response}: {error}"))
}

/// The events of a stream, without the `[DONE]` that must end it.
#[track_caller]
fn events(server: &ServerProcess, line: &str) -> Vec<Value> {
    let response = shell(server, line);
    let mut data: Vec<_> =
        response.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{response}");
    data.into_iter().map(|data| serde_json::from_str(data).expect("an event is JSON")).collect()
}

/// The line with further fields in its body.
fn with_fields(line: &str, fields: &str) -> String {
    let body = line.strip_suffix("}'").expect("the line ends with its body");
    format!("{body}, {fields}}}'")
}

#[track_caller]
fn text<'a>(response: &'a Value, name: &str) -> &'a str {
    response[name].as_str().unwrap_or_else(|| panic!("no text {name:?} in {response}"))
}

fn names(response: &Value) -> Vec<&str> {
    response.as_object().expect("an object").keys().map(String::as_str).collect()
}
