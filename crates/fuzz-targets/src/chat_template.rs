//! A chat template and a conversation.

use serde_json::{Map, Value};
use terrace_model::{ChatTemplate, Message, RenderOptions, SpecialTokenTexts};

use crate::files;

const FILES: [&str; 4] = ["template", "messages", "tools", "variables"];

pub fn run(input: &[u8]) -> bool {
    let files = files::sections(input, &FILES);
    let text = |wanted: &str| {
        let found = files.iter().find(|(name, _)| *name == wanted);
        found.map_or(String::new(), |(_, text)| String::from_utf8_lossy(text).into_owned())
    };
    let template = ChatTemplate::unescape(&text("template"));
    let special = SpecialTokenTexts { bos: Some("<s>".to_owned()), eos: Some("</s>".to_owned()) };
    let Ok(template) = ChatTemplate::new(&template, special) else { return false };
    let messages: Vec<Message> = serde_json::from_str(&text("messages"))
        .unwrap_or_else(|_| vec![Message::text("user", "hello")]);
    let extra: Map<String, Value> = serde_json::from_str(&text("variables")).unwrap_or_default();
    let options = RenderOptions {
        tools: serde_json::from_str(&text("tools")).ok(),
        extra,
        ..RenderOptions::next_message()
    };
    template.render(&messages, &options).is_ok()
}
