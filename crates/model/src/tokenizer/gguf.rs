//! The tokenizer that a GGUF file carries in its metadata.

use std::sync::Arc;

use tokenizers::AddedToken;

use super::guarded::guarded;
use super::segment_encoder::SegmentEncoder;
use super::sentence_piece::{self, ScoredPiece};
use super::split::SplitRule;
use super::token_bytes::{FirstSpace, Spelling, TokenBytes};
use super::{SpecialIds, Tokenizer, byte_level};
use crate::error::Error;
use crate::gguf::GgufFile;

/// Longer tokens are in no real vocabulary, and would make loading a hostile one quadratic.
const MAX_TOKEN_BYTES: usize = 1024;

/// Metadata keys begin with this.
const PREFIX: &str = "tokenizer.ggml.";

impl Tokenizer {
    pub fn from_gguf(file: &GgufFile) -> Result<Tokenizer, Error> {
        let vocabulary = Vocabulary::read(file)?;
        let kind = file.require::<&str>("tokenizer.ggml.model")?;
        let (mut model, rules) = match kind {
            "gpt2" => byte_level_model(file, &vocabulary)?,
            "llama" => sentence_piece_model(file, &vocabulary)?,
            _ => {
                let problem =
                    format!("its tokenizer is {kind:?}, but must be \"gpt2\" or \"llama\"");
                return Err(Error::Malformed { path: file.path().into(), problem });
            }
        };
        guarded(file.path(), || {
            model.add_tokens(&vocabulary.added());
            Ok(())
        })?;

        let special = special_tokens(file, vocabulary.tokens.len())?;
        let add_bos = file.get("tokenizer.ggml.add_bos_token")?.unwrap_or(rules.add_bos);
        let add_eos = file.get("tokenizer.ggml.add_eos_token")?.unwrap_or(false);
        Ok(Tokenizer {
            segments: SegmentEncoder::new(&model),
            model,
            token_bytes: Arc::new(vocabulary.token_bytes(&rules)),
            prefix: special.bos.filter(|_| add_bos).into_iter().collect(),
            suffix: special.eos.first().copied().filter(|_| add_eos).into_iter().collect(),
            special,
            chat_template: file.get::<&str>("tokenizer.chat_template")?.map(str::to_owned),
        })
    }
}

/// What differs between the kinds of tokenizers beside the model itself.
struct TextRules {
    spelling: Spelling,
    first_space: FirstSpace,
    /// Whether a text begins with BOS when the file does not say.
    add_bos: bool,
}

fn byte_level_model(
    file: &GgufFile,
    vocabulary: &Vocabulary<'_>,
) -> Result<(tokenizers::Tokenizer, TextRules), Error> {
    let rule = SplitRule::by_name(file.get("tokenizer.ggml.pre")?.unwrap_or("default"))?;
    let merges = file.require::<Vec<&str>>("tokenizer.ggml.merges")?;
    let model = guarded(file.path(), || byte_level::build(&vocabulary.tokens, &merges, rule))?;
    let rules = TextRules {
        spelling: Spelling::ByteLevel,
        first_space: FirstSpace::Keep,
        add_bos: rule.add_bos,
    };
    Ok((model, rules))
}

fn sentence_piece_model(
    file: &GgufFile,
    vocabulary: &Vocabulary<'_>,
) -> Result<(tokenizers::Tokenizer, TextRules), Error> {
    let scores = file.require::<Vec<f64>>("tokenizer.ggml.scores")?;
    vocabulary.check_length(file, "scores", scores.len())?;
    let pieces: Vec<ScoredPiece<'_>> = vocabulary
        .with_kinds()
        .zip(&scores)
        .filter(|((_, kind), _)| matches!(kind, TokenKind::Normal | TokenKind::UserDefined))
        .map(|((text, _), &score)| ScoredPiece { text, score })
        .collect();
    let space_prefix = file.get("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let settings = sentence_piece::Settings { unknown: vocabulary.unknown(), space_prefix };
    let model =
        guarded(file.path(), || sentence_piece::build(&vocabulary.tokens, &pieces, &settings))?;
    let first_space = if space_prefix { FirstSpace::Drop } else { FirstSpace::Keep };
    let rules = TextRules { spelling: Spelling::SpaceMark, first_space, add_bos: true };
    Ok((model, rules))
}

fn special_tokens(file: &GgufFile, vocab: usize) -> Result<SpecialIds, Error> {
    let id = |name: &str| -> Result<Option<u32>, Error> {
        let key = format!("{PREFIX}{name}_token_id");
        let Some(id) = file.get::<u64>(&key)? else { return Ok(None) };
        match u32::try_from(id) {
            Ok(id) if (id as usize) < vocab => Ok(Some(id)),
            _ => Err(Error::Malformed {
                path: file.path().into(),
                problem: format!("{key} is {id}, outside the vocabulary of {vocab} tokens"),
            }),
        }
    };
    let mut eos = Vec::new();
    for name in ["eos", "eot", "eom"] {
        eos.extend(id(name)?.filter(|id| !eos.contains(id)));
    }
    Ok(SpecialIds { bos: id("bos")?, eos })
}

/// All tokens by id.
struct Vocabulary<'a> {
    tokens: Vec<&'a str>,
    kinds: Vec<TokenKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl<'a> Vocabulary<'a> {
    fn read(file: &'a GgufFile) -> Result<Self, Error> {
        let malformed = |problem| Error::Malformed { path: file.path().into(), problem };
        let tokens = file.require::<Vec<&str>>("tokenizer.ggml.tokens")?;
        if let Some(token) = tokens.iter().position(|token| token.len() > MAX_TOKEN_BYTES) {
            let bytes = tokens[token].len();
            return Err(malformed(format!(
                "token {token} has {bytes} bytes, but at most {MAX_TOKEN_BYTES} are allowed"
            )));
        }
        let kinds = match file.get::<Vec<u64>>("tokenizer.ggml.token_type")? {
            Some(types) => types.into_iter().map(TokenKind::from_id).collect::<Result<_, _>>(),
            None => Ok(vec![TokenKind::Normal; tokens.len()]),
        };
        let vocabulary = Vocabulary { tokens, kinds: kinds.map_err(malformed)? };
        vocabulary.check_length(file, "token_type", vocabulary.kinds.len())?;
        Ok(vocabulary)
    }

    fn check_length(&self, file: &GgufFile, name: &str, length: usize) -> Result<(), Error> {
        if length == self.tokens.len() {
            return Ok(());
        }
        let tokens = self.tokens.len();
        let problem = format!("{PREFIX}{name} has {length} values for {tokens} tokens");
        Err(Error::Malformed { path: file.path().into(), problem })
    }

    fn with_kinds(&self) -> impl Iterator<Item = (&'a str, TokenKind)> {
        self.tokens.iter().copied().zip(self.kinds.iter().copied())
    }

    fn unknown(&self) -> Option<&'a str> {
        self.with_kinds().find(|&(_, kind)| kind == TokenKind::Unknown).map(|(text, _)| text)
    }

    /// The tokens that are found in a text before it is cut into words.
    fn added(&self) -> Vec<AddedToken> {
        self.with_kinds()
            .filter(|(_, kind)| kind.is_special() || *kind == TokenKind::UserDefined)
            .map(|(text, kind)| AddedToken::from(text, kind.is_special()).normalized(false))
            .collect()
    }

    fn token_bytes(&self, rules: &TextRules) -> TokenBytes {
        let mut token_bytes = TokenBytes::new(rules.first_space);
        for (id, (text, kind)) in (0..).zip(self.with_kinds()) {
            if kind.is_special() || kind == TokenKind::UserDefined {
                token_bytes.insert_added(id, text, rules.spelling, kind.is_special());
            } else {
                token_bytes.insert(id, text, rules.spelling);
            }
        }
        token_bytes
    }
}

impl TokenKind {
    fn from_id(id: u64) -> Result<TokenKind, String> {
        Ok(match id {
            1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => return Err(format!("token type {id} is unknown")),
        })
    }

    fn is_special(self) -> bool {
        matches!(self, TokenKind::Control | TokenKind::Unknown)
    }
}
