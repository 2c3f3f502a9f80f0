//! What `/v1/kv_cache/handles` takes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::docs::chat_body::MessageBody;
use crate::docs::generation_fields::KvCacheFields;

/// What a handle is made of: exactly one of `prompt`, `messages` and `response_id`.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"prompt": "A long document.", "name": "document"}))]
pub struct HandleBody {
    /// Which model, as `/v1/models` names it. May be left out while one model is served.
    model: Option<String>,
    /// A text, or token ids.
    prompt: Option<HandlePrompt>,
    /// A conversation, as the model's chat template writes it.
    messages: Option<Vec<MessageBody>>,
    /// The id of a completion, a chat completion or a response that this server has given lately,
    /// with one output; the handle has that output too.
    response_id: Option<String>,
    /// The functions of the conversation, as a chat has them.
    tools: Option<Vec<Value>>,
    /// As a chat has it: `none` leaves the functions out.
    tool_choice: Option<Value>,
    /// As a chat has it.
    parallel_tool_calls: Option<bool>,
    /// Whether the conversation ends with the generation prompt; the default is false, so that
    /// further messages can follow.
    add_generation_prompt: Option<bool>,
    /// Whether the conversation ends with the last message's text, without what ends it.
    continue_final_message: Option<bool>,
    /// How much to think, for chat templates that ask for it.
    reasoning_effort: Option<String>,
    /// Further variables for the model's chat template.
    chat_template_kwargs: Option<Map<String, Value>>,
    /// 1 to 128 characters. Left out, a name is made up. A handle of the same name is replaced.
    name: Option<String>,
    /// Delete it after so many seconds; 0, or left out, keeps it.
    ttl: Option<u64>,
    /// Keep it in memory, within the server's budget for that.
    pin: Option<bool>,
    /// Which tokens its cache keeps, and in how many bits; what it leaves out is the server's.
    kv_cache: Option<KvCacheFields>,
    /// Prefixes are shared only between requests of the same salt.
    cache_salt: Option<String>,
    /// Larger goes first when not all fit; 0 is ordinary.
    priority: Option<i32>,
}

/// A text, or token ids.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
pub enum HandlePrompt {
    Text(String),
    Tokens(Vec<u32>),
}

/// At least one of `pinned`, `name` and `ttl`.
#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"pinned": true}))]
pub struct HandleChanges {
    /// Whose handle, where several models have one of that name.
    model: Option<String>,
    /// Whether it stays in memory, within the server's budget for that.
    pinned: Option<bool>,
    /// A new name, which no other handle has.
    name: Option<String>,
    /// Delete it so many seconds from now; 0 keeps it.
    ttl: Option<u64>,
}
