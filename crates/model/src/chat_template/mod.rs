//! Conversations as text: a model's Jinja template, rendered as Hugging Face renders it.
//!
//! A template comes with the model and may be broken: it has a limit of steps, of depth and of
//! output, beyond which rendering is an error. It is not a sandbox against memory: a template that
//! doubles a text again and again can take a lot before a limit stops it, so templates are taken
//! from those who may choose the model, not from those who talk to it.

mod functions;
mod message;
mod source;

use std::error::Error as _;
use std::io::{self, Write};

use minijinja::Environment;
use minijinja::syntax::SyntaxConfig;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::tokenizer::Tokenizer;
use functions::Raised;
pub use message::Message;

/// Qwen 3's template takes 73 steps a message, so this is enough for 27,000 of them.
const MAX_STEPS: u64 = 2_000_000;
/// Macros that call each other; each level takes stack.
const MAX_DEPTH: usize = 100;
/// More text than any model reads.
const MAX_OUTPUT_BYTES: usize = 64 << 20;

const NAME: &str = "chat";

pub struct ChatTemplate {
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
    /// Whether the text ends where the model's answer begins.
    pub add_generation_prompt: bool,
    /// Descriptions of tools the model may call.
    pub tools: Option<Value>,
    /// Variables of this one template, such as `enable_thinking`.
    pub extra: Map<String, Value>,
}

impl ChatTemplate {
    pub fn new(template: &str, special: SpecialTokenTexts) -> Result<ChatTemplate, Error> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| not_working(&error))?);
        environment.set_fuel(Some(MAX_STEPS));
        environment.set_recursion_limit(MAX_DEPTH);
        functions::add_to(&mut environment);
        environment
            .add_template_owned(NAME, source::without_generation_tags(template))
            .map_err(|error| not_working(&error))?;
        Ok(ChatTemplate { environment, special })
    }

    /// Reads `\n`, `\t`, `\\`, `\"` and `\'` in a template that came through a command line.
    pub fn unescape(template: &str) -> String {
        source::unescape(template)
    }

    /// The template's text, as it is rendered.
    pub fn source(&self) -> String {
        let template = self.environment.get_template(NAME).expect("it was added at the start");
        template.source().to_owned()
    }

    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<String, Error> {
        let messages =
            messages.iter().map(Message::with_flat_content).collect::<Result<Vec<_>, _>>()?;
        let variables = Variables {
            messages,
            add_generation_prompt: options.add_generation_prompt,
            tools: options.tools.as_ref(),
            documents: None,
            bos_token: self.special.bos.as_deref(),
            eos_token: self.special.eos.as_deref(),
            extra: &options.extra,
        };
        let variables = minijinja::value::Serde(&variables);
        let template = self.environment.get_template(NAME).expect("it was added at the start");
        let mut output = LimitedOutput(Vec::new());
        template.render_captured_to(variables, &mut output).map_err(|error| not_working(&error))?;
        Ok(String::from_utf8(output.0).expect("a template writes texts"))
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

/// A text that refuses to grow beyond [`MAX_OUTPUT_BYTES`].
struct LimitedOutput(Vec<u8>);

impl Write for LimitedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT_BYTES {
            return Err(io::Error::other(format!("more than {MAX_OUTPUT_BYTES} bytes of text")));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The whole chain of causes; the template's own exception is told apart.
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
