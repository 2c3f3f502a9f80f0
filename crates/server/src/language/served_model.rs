//! A model under this server: the engine's model, and the server's own chat template if it has one.
//!
//! The only file of this crate that touches tokenizers and chat templates.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use terrace_engine::TokenId;
use terrace_engine::text::LanguageModel;
use terrace_model::{
    AddSpecial, ChatTemplate, RenderOptions, SpecialTokenTexts, SpecialTokens, Tokenizer,
};

use crate::api_error::{ApiError, ApiResult};
use crate::chat::{Conversation, is_thinking_template};
use crate::error::Error;
use crate::language::{TokenNames, TokenText};
use crate::tools::ToolPrompt;

/// Tokens that become text at a time.
const TOKENS_AT_ONCE: usize = 1024;

pub struct ServedModel {
    model: Arc<LanguageModel>,
    /// Goes before the model's own.
    chat_template: Option<ChatTemplate>,
    tool_prompt: ToolPrompt,
    thinks: bool,
}

impl ServedModel {
    /// `chat_template` is a file or the template itself.
    pub fn new(model: Arc<LanguageModel>, chat_template: Option<&str>) -> Result<Self, Error> {
        let chat_template = match chat_template {
            Some(given) => {
                let source = template_source(given)?;
                let special = SpecialTokenTexts::of(model.tokenizer());
                let template = ChatTemplate::new(&source, special);
                Some(template.map_err(Error::ChatTemplate)?)
            }
            None => None,
        };
        let template = chat_template.as_ref().or(model.chat_template());
        let source = template.map(ChatTemplate::source);
        let tool_prompt = ToolPrompt::of_template(source);
        let thinks = source.is_some_and(is_thinking_template);
        Ok(Self { model, chat_template, tool_prompt, thinks })
    }

    pub fn name(&self) -> &str {
        self.model.name()
    }

    pub fn context_tokens(&self) -> usize {
        self.model.context_tokens()
    }

    /// What takes requests, and says how it is.
    pub fn engine(&self) -> &LanguageModel {
        &self.model
    }

    pub fn render(
        &self,
        conversation: &Conversation,
        options: &RenderOptions,
    ) -> ApiResult<String> {
        let Some(template) = self.template() else {
            let message = format!(
                "the model {:?} has no chat template; start the server with --chat-template, or \
                 use completions",
                self.name()
            );
            return Err(ApiError::invalid("messages", message));
        };
        let tools = options.tools.as_ref();
        let (messages, tools) = self.tool_prompt.prepare(conversation.messages(), tools)?;
        let options = RenderOptions { tools, ..options.clone() };
        // Templates refuse conversations they were not written for; that is the client's to mend.
        template.render(&messages, &options).map_err(about("messages"))
    }

    pub fn tool_prompt(&self) -> ToolPrompt {
        self.tool_prompt
    }

    /// Whether the model writes its reasoning between tags.
    pub fn thinks(&self) -> bool {
        self.thinks
    }

    /// The special token that is written as `text`, if there is one.
    pub fn special_token(&self, text: &str) -> Option<TokenId> {
        self.token_of(text).filter(|&id| self.tokenizer().is_special(id))
    }

    /// The one token that is written as `text`, if there is one.
    pub fn token_of(&self, text: &str) -> Option<TokenId> {
        let ids = self.tokenizer().encode(text, AddSpecial::No).ok()?;
        ids.first().copied().filter(|_| ids.len() == 1)
    }

    pub fn encode(&self, text: &str, add_special: AddSpecial) -> ApiResult<Vec<TokenId>> {
        self.tokenizer().encode(text, add_special).map_err(about("prompt"))
    }

    /// The text's tokens, and those that frame it, without the end of a text that is too long.
    pub fn encode_start(&self, text: &str, limit: usize) -> ApiResult<Vec<TokenId>> {
        self.tokenizer().encode_start(text, limit).map_err(about("prompt"))
    }

    /// The text of the tokens, special ones included.
    pub fn decode(&self, ids: &[TokenId]) -> ApiResult<String> {
        self.tokenizer().decode(ids, SpecialTokens::Keep).map_err(about("tokens"))
    }

    /// The text of the tokens, special ones included, a few tokens at a time.
    pub fn segments_of(
        &self,
        ids: Arc<[TokenId]>,
    ) -> ApiResult<impl Iterator<Item = String> + Send + use<>> {
        self.tokenizer().check_known(&ids).map_err(about("tokens"))?;
        let mut stream = self.tokenizer().stream(SpecialTokens::Keep);
        let (mut written, mut is_finished) = (0, false);
        Ok(std::iter::from_fn(move || {
            if let Some(next) = ids[written..].chunks(TOKENS_AT_ONCE).next() {
                written += next.len();
                let texts = next.iter().map(|&id| stream.push(id));
                return Some(texts.collect::<Result<String, _>>().expect("all tokens are known"));
            }
            let rest = (!is_finished).then(|| stream.finish());
            is_finished = true;
            rest
        }))
    }

    /// The template that conversations are written out with.
    pub fn template_source(&self) -> Option<&str> {
        self.template().map(ChatTemplate::source)
    }

    /// How the tokenizer splits text: `BPE`, `Unigram`, `WordPiece` or `WordLevel`.
    pub fn tokenizer_kind(&self) -> &'static str {
        self.tokenizer().kind()
    }

    /// One more than the largest token id.
    pub fn vocab_size(&self) -> usize {
        self.tokenizer().vocab_size()
    }

    /// The token that begins a text.
    pub fn bos_token(&self) -> Option<TokenId> {
        self.tokenizer().bos()
    }

    /// The tokens that end an output.
    pub fn eos_tokens(&self) -> &[TokenId] {
        self.tokenizer().eos()
    }

    /// The tokens that are part of no text.
    pub fn special_tokens(&self) -> Vec<TokenId> {
        let tokenizer = self.tokenizer();
        let ids = 0..TokenId::try_from(tokenizer.vocab_size()).unwrap_or(TokenId::MAX);
        ids.filter(|&id| tokenizer.is_special(id)).collect()
    }

    pub fn token_text(&self, id: TokenId) -> TokenText {
        TokenText::of(self.tokenizer().token_bytes(id).unwrap_or_default())
    }

    pub fn token_names(&self) -> TokenNames {
        let model = Arc::clone(&self.model);
        Arc::new(move |id| TokenText::of(model.tokenizer().token_bytes(id).unwrap_or_default()))
    }

    fn template(&self) -> Option<&ChatTemplate> {
        self.chat_template.as_ref().or(self.model.chat_template())
    }

    fn tokenizer(&self) -> &Tokenizer {
        self.model.tokenizer()
    }
}

/// The model's complaint about what stood in a field.
fn about<E: ToString>(field: &str) -> impl Fn(E) -> ApiError {
    move |error| ApiError::invalid(field, error.to_string())
}

fn template_source(given: &str) -> Result<String, Error> {
    let path = Path::new(given);
    // Templates are full of braces; files are not named so.
    if given.contains('{') || !path.is_file() {
        return Ok(ChatTemplate::unescape(given));
    }
    fs::read_to_string(path)
        .map_err(|source| Error::ChatTemplateFile { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_a_file_or_itself() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        fs::write(file.path(), r"{{ 'from\n' }} a file").expect("the file is writable");
        let path = file.path().to_str().expect("a plain path");
        assert_eq!(template_source(path).expect("the file is there"), r"{{ 'from\n' }} a file");
        assert_eq!(template_source(r"{{ 'a' }}\n").expect("a template"), "{{ 'a' }}\n");
    }
}
