//! How a family of models writes a call.

use serde_json::{Value, json};
use terrace_engine::TokenId;
use terrace_engine::guidance::GrammarRule;

use super::call_markup::CallMarkup;
use super::{hermes, llama, mistral};

/// Calls of one output that a grammar allows; a small model that may go on does go on.
const MAX_CALLS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    Hermes,
    Llama,
    Mistral,
}

/// What an output may be.
pub struct AllowedCalls<'a> {
    /// Each a name, and the schema of its arguments.
    pub functions: Vec<(&'a str, Value)>,
    pub is_parallel: bool,
    /// The token that `CallMarkup::open` is, if it is one of the special ones.
    pub open: Option<TokenId>,
    /// The schema of an output that may come instead of calls.
    pub output: Option<Value>,
}

impl ToolFormat {
    /// What a template was written for; `None` if it knows no tools or has another format.
    pub fn of_template(template: &str) -> Option<Self> {
        let known = template.contains("tools");
        let formats = [
            (ToolFormat::Hermes, hermes::is_in(template)),
            (ToolFormat::Mistral, mistral::is_in(template)),
            (ToolFormat::Llama, llama::is_in(template)),
        ];
        formats.into_iter().find(|(_, is_in)| known && *is_in).map(|(format, _)| format)
    }

    pub fn markup(self) -> &'static CallMarkup {
        match self {
            ToolFormat::Hermes => &hermes::MARKUP,
            ToolFormat::Llama => &llama::MARKUP,
            ToolFormat::Mistral => &mistral::MARKUP,
        }
    }

    /// A call as the model would have written it.
    pub fn written_call(self, name: &str, arguments: &Value) -> String {
        let CallMarkup { before_each, after_each, arguments_key, .. } = self.markup();
        let name = json!(name);
        format!("{before_each}{{\"name\": {name}, \"{arguments_key}\": {arguments}}}{after_each}")
    }

    /// Calls and nothing else, or an output instead where one may come.
    pub fn calls(self, allowed: AllowedCalls<'_>) -> GrammarRule {
        let AllowedCalls { functions, is_parallel, open, output } = allowed;
        let markup = self.markup();
        let quoted = |text: &str| json!(text).to_string();
        let call = |(index, (name, _)): (usize, &(&str, Value))| {
            let head = format!("{{\"name\": {}, \"{}\": ", json!(name), markup.arguments_key);
            format!("{} json{index} \"}}\"", quoted(&head))
        };
        let calls: Vec<_> = functions.iter().enumerate().map(call).collect();
        let open = match open {
            Some(id) => format!("<[{id}]>"),
            None if markup.before_each.starts_with(markup.open) => quoted(""),
            None => quoted(markup.open),
        };
        let more = match is_parallel {
            true => format!("({} call){{0,{}}}", quoted(markup.between), MAX_CALLS - 1),
            false => String::new(),
        };
        let instead = output.as_ref().map(|_| format!(" | json{}", functions.len()));
        let lark = format!(
            "start: calls{}\ncalls: {open} {} call {more} {}\ncall: {} ({}) {}\n",
            instead.unwrap_or_default(),
            quoted(markup.before_all),
            quoted(markup.after_all),
            quoted(markup.before_each),
            calls.join(" | "),
            quoted(markup.after_each),
        );
        let schemas = functions.into_iter().map(|(_, schema)| schema).chain(output).collect();
        GrammarRule::LarkWithJson { lark, schemas }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_show_their_format() {
        let check = |template, want| assert_eq!(ToolFormat::of_template(template), want);
        check("{% for m in messages %}{{ m.content }}{% endfor %}", None);
        check("{% if tools %}<tool_call>{% endif %}", Some(ToolFormat::Hermes));
        check("{% if tools %}<tool_call><function={% endif %}", None);
        check("{% if tools %}[AVAILABLE_TOOLS][TOOL_CALLS]{% endif %}", Some(ToolFormat::Mistral));
        check("{% if tools %}[TOOL_CALLS]f[ARGS]{% endif %}", None);
        let llama = r#"{% if tools %}ipython{{ '"parameters": ' }}{% endif %}"#;
        check(llama, Some(ToolFormat::Llama));
    }

    #[test]
    fn a_call_is_written_as_models_write_it() {
        let written = |format: ToolFormat| format.written_call("f", &json!({"a": 1}));
        let hermes = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>";
        assert_eq!(written(ToolFormat::Hermes), hermes);
        assert_eq!(written(ToolFormat::Llama), r#"{"name": "f", "parameters": {"a":1}}"#);
    }
}
