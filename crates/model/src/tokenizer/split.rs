//! How a text is cut into words before byte-level BPE, by the name a GGUF file gives the rule.
//!
//! Each pattern cuts the splits the one before left: what it matches becomes a split, and so does
//! what lies between two matches.

use crate::error::Error;

pub struct SplitRule {
    pub patterns: &'static [&'static str],
    /// Whether a word that is a token is taken whole, even if no merges lead to it.
    pub ignore_merges: bool,
    /// Whether a text begins with BOS when the file does not say.
    pub add_bos: bool,
}

impl SplitRule {
    pub fn by_name(name: &str) -> Result<&'static SplitRule, Error> {
        let found = RULES.iter().find(|(names, _)| names.contains(&name));
        found.map(|(_, rule)| rule).ok_or_else(|| Error::PreTokenizerUnknown {
            name: name.into(),
            known: RULES
                .iter()
                .flat_map(|(names, _)| *names)
                .copied()
                .collect::<Vec<_>>()
                .join(", "),
        })
    }
}

const RULES: &[(&[&str], SplitRule)] = &[
    (&["default", "gpt-2"], SplitRule::plain(&[GPT_2])),
    (&["smollm", "starcoder", "refact", "command-r"], SplitRule::plain(&[r"\p{N}", GPT_2])),
    (&["llama-bpe", "llama3", "llama-v3"], SplitRule::tiktoken(&[LLAMA_3])),
    (&["chatglm-bpe", "glm4"], SplitRule::plain(&[LLAMA_3])),
    (&["qwen2", "deepseek-r1-qwen"], SplitRule::plain(&[QWEN_2])),
    (&["tekken"], SplitRule::tiktoken(&[TEKKEN])),
    (
        &["deepseek-llm"],
        SplitRule::plain(&[
            r"[\r\n]",
            DEEPSEEK_WORD,
            r"\s?[!-/:-~！-／：-～‘-‟\u{3000}-。]+",
            r"\s+$",
            CJK,
            r"\p{N}+",
        ]),
    ),
    (
        &["deepseek-coder"],
        SplitRule::plain(&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"]),
    ),
    (&["deepseek-v3"], SplitRule::plain(&[r"\p{N}{1,3}", r"[一-龥\u{3040}-ゟ゠-ヿ]+", DEEPSEEK_3])),
];

pub const GPT_2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

const LLAMA_3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// As Llama 3, but every digit stands alone.
const QWEN_2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// Mistral's: words end where lower case turns to upper case.
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// Letters with a case, less those the original list leaves out: Armenian and Georgian small
/// letters, late additions to Latin and Cherokee, mathematical alphabets.
const DEEPSEEK_WORD: &str = concat!(
    r"\s?[\p{Lu}\p{Ll}\p{Lt}&&[^\u{560}-\u{588}\u{10C7}-\u{10FF}\u{1C80}-\u{1C8A}",
    r"\u{2D00}-\u{2D2D}\u{A790}-\u{A7FA}\u{AB30}-\u{AB68}\u{10570}-\u{105BC}",
    r"\u{10D50}-\u{10D85}\u{16E40}-\u{16E7F}\u{1D400}-\u{1D7CB}\u{1DF00}-\u{1DF2A}]]+",
);

/// Chinese, Japanese and Korean, as DeepSeek's first tokenizers have it.
const CJK: &str = r"[一-龥ࠀ-一가-\u{D7FF}]+";

const DEEPSEEK_3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
);

impl SplitRule {
    const fn plain(patterns: &'static [&'static str]) -> Self {
        SplitRule { patterns, ignore_merges: false, add_bos: false }
    }

    /// For vocabularies made with tiktoken, whose merges do not reach every token.
    const fn tiktoken(patterns: &'static [&'static str]) -> Self {
        SplitRule { patterns, ignore_merges: true, add_bos: true }
    }
}
