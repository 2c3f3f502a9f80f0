//! Whether positions are scaled for texts longer than a model was trained for, and how.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FlagOrWord", into = "FlagOrWord")]
pub enum YarnRope {
    /// `false`
    Never,
    /// `true`: for the longest text that may come, and for all texts alike.
    Expected,
    /// `dynamic`: for each text as it grows.
    Dynamic,
}

impl YarnRope {
    pub const NAMES: [&str; 3] = ["true", "false", "dynamic"];
}

impl FromStr for YarnRope {
    type Err = String;

    /// In any case, for Python spells it `False`.
    fn from_str(name: &str) -> Result<Self, String> {
        match name.to_ascii_lowercase().as_str() {
            "true" => Ok(YarnRope::Expected),
            "false" => Ok(YarnRope::Never),
            "dynamic" => Ok(YarnRope::Dynamic),
            _ => Err(format!("{name:?}, expected true, false or dynamic")),
        }
    }
}

/// As settings have it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum FlagOrWord {
    Flag(bool),
    Word(String),
}

impl TryFrom<FlagOrWord> for YarnRope {
    type Error = String;

    fn try_from(said: FlagOrWord) -> Result<Self, String> {
        match said {
            FlagOrWord::Flag(flag) => flag.to_string().parse(),
            FlagOrWord::Word(word) => word.parse(),
        }
    }
}

impl From<YarnRope> for FlagOrWord {
    fn from(yarn: YarnRope) -> Self {
        match yarn {
            YarnRope::Never => FlagOrWord::Flag(false),
            YarnRope::Expected => FlagOrWord::Flag(true),
            YarnRope::Dynamic => FlagOrWord::Word("dynamic".into()),
        }
    }
}
