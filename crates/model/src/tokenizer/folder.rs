//! The tokenizer of a Hugging Face folder: `tokenizer.json` and the files beside it.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::guarded::guarded;
use super::segment_encoder::SegmentEncoder;
use super::token_bytes::{FirstSpace, Spelling, TokenBytes};
use super::{SpecialIds, Tokenizer};
use crate::error::Error;
use crate::files::{read_json, read_text};

impl Tokenizer {
    /// Reads `tokenizer.json`, and what the files beside it say about special tokens.
    pub fn from_file(tokenizer_json: &Path) -> Result<Tokenizer, Error> {
        let bytes = std::fs::read(tokenizer_json)
            .map_err(|source| Error::Read { path: tokenizer_json.into(), source })?;
        let malformed = |problem| Error::Malformed { path: tokenizer_json.into(), problem };
        let (model, frame) = guarded(tokenizer_json, || {
            let mut model = tokenizers::Tokenizer::from_bytes(&bytes)?;
            model.with_padding(None).with_truncation(None)?;
            let frame = frame_of(&model)?;
            // From here on the frame is ours to add.
            model.with_post_processor(None::<tokenizers::PostProcessorWrapper>);
            Ok((model, frame))
        })?;
        let decoder = serde_json::to_value(model.get_decoder())
            .map_err(|error| malformed(format!("decoder: {error}")))?;
        let token_bytes = token_bytes(&model, &decoder).map_err(malformed)?;

        let folder = tokenizer_json.parent().unwrap_or(Path::new(""));
        let config: TokenizerConfig = read_if_there(&folder.join("tokenizer_config.json"))?;
        let special = special_tokens(folder, &model, &config)?;
        let (mut prefix, mut suffix) = frame;
        override_frame(&mut prefix, special.bos, config.add_bos_token);
        override_frame(&mut suffix, special.eos.first().copied(), config.add_eos_token);
        let chat_template = chat_template(folder, config.chat_template)?;
        Ok(Tokenizer {
            segments: SegmentEncoder::new(&model),
            model,
            token_bytes: Arc::new(token_bytes),
            special,
            prefix,
            suffix,
            chat_template,
        })
    }
}

/// `tokenizer_config.json`, as far as it matters here.
#[derive(Default, Deserialize)]
struct TokenizerConfig {
    bos_token: Option<TokenName>,
    eos_token: Option<TokenName>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    chat_template: Option<Templates>,
}

/// `config.json` and `generation_config.json`, as far as they matter here.
#[derive(Default, Deserialize)]
struct SpecialIdsConfig {
    bos_token_id: Option<OneOrMany>,
    eos_token_id: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TokenName {
    Text(String),
    Token { content: String },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

impl OneOrMany {
    fn into_vec(self) -> Vec<u32> {
        match self {
            OneOrMany::One(id) => vec![id],
            OneOrMany::Many(ids) => ids,
        }
    }
}

/// What the post-processor puts in front of a text and behind it.
fn frame_of(model: &tokenizers::Tokenizer) -> Result<(Vec<u32>, Vec<u32>), tokenizers::Error> {
    let plain = model.encode_fast("a", false)?;
    let framed = model.encode_fast("a", true)?;
    let (plain, framed) = (plain.get_ids(), framed.get_ids());
    let start = (0..=framed.len())
        .find(|&start| framed[start..].starts_with(plain))
        .ok_or("its post-processor changes the text's own tokens")?;
    Ok((framed[..start].to_vec(), framed[start + plain.len()..].to_vec()))
}

/// Follows `add_bos_token` and its kin where the file has them.
fn override_frame(frame: &mut Vec<u32>, token: Option<u32>, wanted: Option<bool>) {
    let Some(token) = token else { return };
    match wanted {
        Some(true) if !frame.contains(&token) => frame.insert(0, token),
        Some(false) => frame.retain(|&id| id != token),
        _ => {}
    }
}

fn special_tokens(
    folder: &Path,
    model: &tokenizers::Tokenizer,
    config: &TokenizerConfig,
) -> Result<SpecialIds, Error> {
    let named = |name: &Option<TokenName>| {
        let (TokenName::Text(text) | TokenName::Token { content: text }) = name.as_ref()?;
        model.token_to_id(text)
    };
    let mut bos = named(&config.bos_token);
    let mut eos: Vec<u32> = named(&config.eos_token).into_iter().collect();
    for file in ["generation_config.json", "config.json"] {
        let config: SpecialIdsConfig = read_if_there(&folder.join(file))?;
        for id in config.eos_token_id.map(OneOrMany::into_vec).unwrap_or_default() {
            if !eos.contains(&id) {
                eos.push(id);
            }
        }
        bos = bos.or(config.bos_token_id.and_then(|ids| ids.into_vec().first().copied()));
    }
    Ok(SpecialIds { bos, eos })
}

/// A template of its own file goes before one in the configuration; of several, the default.
fn chat_template(folder: &Path, configured: Option<Templates>) -> Result<Option<String>, Error> {
    let path = folder.join("chat_template.jinja");
    if path.exists() {
        return read_text(&path).map(Some);
    }
    Ok(match configured {
        Some(Templates::One(template)) => Some(template),
        Some(Templates::Named(templates)) => {
            templates.into_iter().find(|named| named.name == "default").map(|named| named.template)
        }
        None => None,
    })
}

/// Everything is optional in a file that is not there.
fn read_if_there<T: DeserializeOwned + Default>(path: &Path) -> Result<T, Error> {
    if path.exists() { read_json(path) } else { Ok(T::default()) }
}

fn token_bytes(model: &tokenizers::Tokenizer, decoder: &Value) -> Result<TokenBytes, String> {
    let (spelling, first_space) = spelling(decoder)?;
    let mut token_bytes = TokenBytes::new(first_space);
    for (text, id) in model.get_vocab(false) {
        token_bytes.insert(id, &text, spelling);
    }
    for (id, token) in model.get_added_tokens_decoder() {
        token_bytes.insert_added(id, &token.content, spelling, token.special);
    }
    Ok(token_bytes)
}

/// What a decoder of `tokenizer.json` amounts to.
fn spelling(decoder: &Value) -> Result<(Spelling, FirstSpace), String> {
    let steps = match decoder["decoders"].as_array() {
        Some(steps) => steps.as_slice(),
        None => std::slice::from_ref(decoder),
    };
    let (mut spelling, mut first_space) = (None, FirstSpace::Keep);
    for step in steps {
        match step["type"].as_str() {
            Some("ByteLevel") => spelling = Some(Spelling::ByteLevel),
            Some("Replace") if step["pattern"]["String"] == "▁" && step["content"] == " " => {
                spelling = Some(Spelling::SpaceMark);
            }
            Some("Metaspace") => {
                spelling = Some(Spelling::SpaceMark);
                if step["prepend_scheme"] != "never" {
                    first_space = FirstSpace::Drop;
                }
            }
            Some("Strip") if step["content"] == " " => first_space = FirstSpace::Drop,
            Some("ByteFallback" | "Fuse") => {}
            _ => return Err(format!("decoder {step} is not supported")),
        }
    }
    let spelling = spelling.ok_or_else(|| format!("decoder {decoder} spells no spaces"))?;
    Ok((spelling, first_space))
}
