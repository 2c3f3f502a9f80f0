//! Log-probabilities in the two shapes OpenAI has for them.

use std::collections::BTreeMap;

use serde::Serialize;
use terrace_engine::text::TokenInfo;
use terrace_engine::{TokenId, TokenLogprobs};
use utoipa::ToSchema;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::language::{TokenNames, TokenText};

/// What OpenAI writes for a token that cannot come at all; JSON has no infinity.
const LEAST_LOGPROB: f32 = -9999.0;

/// How many of the best tokens are reported with each; `None` for no log-probabilities.
pub fn take_logprobs(fields: &mut Fields) -> ApiResult<Option<usize>> {
    let requested = fields.take::<bool>("logprobs")?.unwrap_or(false);
    match (requested, fields.take::<usize>("top_logprobs")?) {
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => {
            let message = "top_logprobs needs \"logprobs\": true";
            Err(ApiError::invalid("top_logprobs", message))
        }
    }
}

/// One token of a chat output.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChatLogprob {
    #[serde(flatten)]
    token: NamedLogprob,
    /// The most probable tokens at its position, best first.
    top_logprobs: Vec<NamedLogprob>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
struct NamedLogprob {
    /// The token's text; `bytes:\x..` where that is no whole character.
    token: String,
    /// The natural logarithm of its probability.
    logprob: f32,
    /// The bytes of its text.
    bytes: Vec<u8>,
}

impl ChatLogprob {
    pub fn of(info: &TokenInfo, names: &TokenNames) -> Option<Self> {
        let TokenLogprobs { logprob, top } = info.logprobs.as_ref()?;
        let named = |&(id, logprob): &(TokenId, f32)| {
            let TokenText { text, bytes } = names(id);
            NamedLogprob { token: text, logprob: logprob.max(LEAST_LOGPROB), bytes }
        };
        Some(Self {
            token: named(&(info.id, *logprob)),
            top_logprobs: top.iter().map(named).collect(),
        })
    }
}

/// The prompt's tokens, as vLLM shows them: for each, token ids to what is known about them. Null
/// for the first, which nothing comes before.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct PromptLogprobs(Vec<Option<BTreeMap<TokenId, PromptLogprob>>>);

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct PromptLogprob {
    /// The natural logarithm of its probability.
    logprob: f32,
    /// 1 for the most probable; null where it is not among those that were requested.
    rank: Option<usize>,
    /// The token's text.
    decoded_token: String,
}

impl PromptLogprobs {
    pub fn new(tokens: &[TokenId], logprobs: &[Option<TokenLogprobs>], names: &TokenNames) -> Self {
        let shown = |(&id, given): (&TokenId, &Option<TokenLogprobs>)| {
            let TokenLogprobs { logprob, top } = given.as_ref()?;
            let entry = |id: TokenId, logprob: f32, rank: Option<usize>| {
                let logprob = logprob.max(LEAST_LOGPROB);
                (id, PromptLogprob { logprob, rank, decoded_token: names(id).text })
            };
            let ranked = top.iter().enumerate();
            let ranked = ranked.map(|(index, &(id, logprob))| entry(id, logprob, Some(index + 1)));
            let is_ranked = top.iter().any(|(other, _)| *other == id);
            let own = (!is_ranked).then(|| entry(id, *logprob, None));
            Some(ranked.chain(own).collect())
        };
        Self(tokens.iter().zip(logprobs).map(shown).collect())
    }
}

/// The tokens of a plain completion, as parallel lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct CompletionLogprobs {
    /// The text of each token.
    tokens: Vec<String>,
    /// `None` for the first token of a prompt, which nothing predicts.
    token_logprobs: Vec<Option<f32>>,
    /// The most probable tokens at each position, and the one that came.
    top_logprobs: Vec<Option<BTreeMap<String, f32>>>,
    /// Where each token begins, in characters of the output's text.
    text_offset: Vec<usize>,
}

impl CompletionLogprobs {
    /// Adds a token that begins at `offset`; returns where it ends.
    pub fn push(
        &mut self,
        id: TokenId,
        logprobs: Option<&TokenLogprobs>,
        offset: usize,
        names: &TokenNames,
    ) -> usize {
        let TokenText { text, bytes } = names(id);
        let end = offset + String::from_utf8_lossy(&bytes).chars().count();
        self.token_logprobs.push(logprobs.map(|given| given.logprob.max(LEAST_LOGPROB)));
        self.top_logprobs.push(logprobs.map(|given| {
            let sampled = (text.clone(), given.logprob);
            let top = given.top.iter().map(|&(id, logprob)| (names(id).text, logprob));
            let named = top.chain([sampled]);
            named.map(|(text, logprob)| (text, logprob.max(LEAST_LOGPROB))).collect()
        }));
        self.tokens.push(text);
        self.text_offset.push(offset);
        end
    }

    pub fn append(&mut self, mut later: Self) {
        self.tokens.append(&mut later.tokens);
        self.token_logprobs.append(&mut later.token_logprobs);
        self.top_logprobs.append(&mut later.top_logprobs);
        self.text_offset.append(&mut later.text_offset);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn names() -> TokenNames {
        Arc::new(|id| match id {
            7 => TokenText { text: "bytes:\\xc3".to_owned(), bytes: vec![0xc3] },
            id => TokenText { text: format!("t{id}"), bytes: format!("t{id}").into_bytes() },
        })
    }

    #[test]
    fn chat_has_a_list_of_tokens() {
        let logprobs = TokenLogprobs { logprob: f32::NEG_INFINITY, top: vec![(1, -0.5)] };
        let info = TokenInfo { id: 7, logprobs: Some(logprobs) };
        let json = serde_json::to_string(&ChatLogprob::of(&info, &names())).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"token":"bytes:\\xc3","logprob":-9999.0,"bytes":[195],"#,
                r#""top_logprobs":[{"token":"t1","logprob":-0.5,"bytes":[116,49]}]}"#
            )
        );
        assert_eq!(ChatLogprob::of(&TokenInfo { id: 7, logprobs: None }, &names()), None);
    }

    #[test]
    fn completions_have_parallel_lists() {
        let mut lists = CompletionLogprobs::default();
        let second = TokenLogprobs { logprob: -2.0, top: vec![(3, -0.5)] };
        let end = lists.push(1, None, 10, &names());
        assert_eq!(end, 12);
        lists.push(2, Some(&second), end, &names());
        assert_eq!(
            serde_json::to_string(&lists).unwrap(),
            concat!(
                r#"{"tokens":["t1","t2"],"token_logprobs":[null,-2.0],"#,
                r#""top_logprobs":[null,{"t2":-2.0,"t3":-0.5}],"text_offset":[10,12]}"#
            )
        );
    }
}
