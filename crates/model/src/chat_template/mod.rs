//! Conversations as text: a model's Jinja template, rendered as Hugging Face renders it.
//!
//! A template comes with the model and may be broken or hostile: its steps, its depth and what it
//! makes are limited, and beyond a limit rendering is an error.

mod builtins;
mod functions;
mod message;
mod operators;
mod source;
mod work_limit;

use std::collections::BTreeMap;
use std::error::Error as _;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, machinery};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::tokenizer::Tokenizer;
use functions::Raised;
pub use message::Message;
use work_limit::Size;

/// Qwen 3's template takes 73 steps a message, so this is enough for 27,000 of them.
const MAX_STEPS: u64 = 2_000_000;
/// Macros that call each other; each level takes stack.
const MAX_DEPTH: usize = 100;
/// Text between tags costs a step, however long it is.
const MAX_PLAIN_BYTES: u64 = 256 << 20;

const NAME: &str = "chat";

pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
    special: SpecialTokenTexts,
}

/// How the special tokens are written, for templates that write them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokenTexts {
    pub bos: Option<String>,
    pub eos: Option<String>,
}

/// What to render beside the messages.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderOptions {
    /// Whether the text ends where the model's output begins.
    pub add_generation_prompt: bool,
    /// Whether the text ends with the last message's own, so that the model goes on with it.
    pub continue_final_message: bool,
    /// Descriptions of tools the model may call.
    pub tools: Option<Value>,
    /// Variables of this one template, such as `enable_thinking`.
    pub extra: Map<String, Value>,
}

impl RenderOptions {
    /// The model speaks next; no tools, no variables of the template's own.
    pub fn next_message() -> Self {
        RenderOptions {
            add_generation_prompt: true,
            continue_final_message: false,
            tools: None,
            extra: Map::new(),
        }
    }
}

impl ChatTemplate {
    pub fn new(template: &str, special: SpecialTokenTexts) -> Result<ChatTemplate, Error> {
        let source = source::without_generation_tags(template);
        let (_, longest_text) =
            operators::compile(NAME, &source, syntax()).map_err(|error| not_working(&error))?;
        let mut environment = Environment::new();
        environment.set_fuel(Some(MAX_STEPS.min(MAX_PLAIN_BYTES / longest_text.max(1) as u64)));
        environment.set_recursion_limit(MAX_DEPTH);
        environment.set_formatter(|out, state, value| {
            work_limit::pay_for(state, std::slice::from_ref(value), Size::Whole)?;
            minijinja::escape_formatter(out, state, value)
        });
        operators::add_to(&mut environment);
        builtins::add_to(&mut environment);
        functions::add_to(&mut environment);
        Ok(ChatTemplate { source, environment, special })
    }

    /// Reads `\n`, `\t`, `\\`, `\"` and `\'` in a template that came through a command line.
    pub fn unescape(template: &str) -> String {
        source::unescape(template)
    }

    /// The template's text, as it is rendered.
    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<String, Error> {
        let messages =
            messages.iter().map(Message::with_flat_content).collect::<Result<Vec<_>, _>>()?;
        let last = messages.last().and_then(|message| message.content.as_str());
        let final_content = last.unwrap_or_default().trim().to_owned();
        let variables = Variables {
            messages,
            add_generation_prompt: options.add_generation_prompt,
            tools: options.tools.as_ref(),
            documents: None,
            bos_token: self.special.bos.as_deref(),
            eos_token: self.special.eos.as_deref(),
            extra: &options.extra,
        };
        let variables = minijinja::value::Serde(&variables).into();
        let (instructions, _) =
            operators::compile(NAME, &self.source, syntax()).expect("it compiled at the start");
        let mut text = String::new();
        let mut output = machinery::make_string_output(&mut text);
        let blocks = BTreeMap::new();
        let no_escape = AutoEscape::None;
        machinery::eval(
            &self.environment,
            &instructions,
            variables,
            &blocks,
            &mut output,
            no_escape,
        )
        .map_err(|error| not_working(&error))?;
        drop(output);
        match options.continue_final_message {
            true => without_end(text, &final_content),
            false => Ok(text),
        }
    }
}

impl SpecialTokenTexts {
    pub fn of(tokenizer: &Tokenizer) -> SpecialTokenTexts {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id));
        SpecialTokenTexts {
            bos: text(tokenizer.bos()),
            eos: text(tokenizer.eos().first().copied()),
        }
    }
}

/// The text up to the end of the last message's content, without what the template writes after it.
fn without_end(mut text: String, content: &str) -> Result<String, Error> {
    match text.rfind(content) {
        Some(start) if !content.is_empty() => {
            text.truncate(start + content.len());
            Ok(text)
        }
        _ => Err(Error::Template {
            problem: "the last message cannot be continued: the template does not show its text"
                .into(),
        }),
    }
}

/// What a template sees. Tools and documents are there even without any: templates ask for none.
#[derive(Serialize)]
struct Variables<'a> {
    messages: Vec<Message>,
    add_generation_prompt: bool,
    tools: Option<&'a Value>,
    documents: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bos_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eos_token: Option<&'a str>,
    #[serde(flatten)]
    extra: &'a Map<String, Value>,
}

fn syntax() -> SyntaxConfig {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    syntax.expect("the delimiters are Jinja's own")
}

/// The whole chain of causes; the template's own exception is an error of its own.
fn not_working(error: &minijinja::Error) -> Error {
    let mut problem = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(raised) = error.downcast_ref::<Raised>() {
            return Error::TemplateRefused { message: raised.message.clone() };
        }
        problem += &format!(": {error}");
        cause = error.source();
    }
    Error::Template { problem }
}
