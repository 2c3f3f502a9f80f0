//! The rules by their names, as options give them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacementRule {
    /// The longest unused leaves first.
    #[default]
    Lru,
    /// The least frequently used leaves first.
    #[serde(rename = "lfu")]
    TinyLfu,
    /// Once-used and often-used entries share the level as hits show that they should.
    Arc,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no placement rule {name:?}: use one of {}", PlacementRule::names())]
pub struct UnknownPlacementRule {
    pub name: String,
}

impl PlacementRule {
    pub const ALL: [PlacementRule; 3] =
        [PlacementRule::Lru, PlacementRule::TinyLfu, PlacementRule::Arc];

    pub fn name(self) -> &'static str {
        match self {
            PlacementRule::Lru => "lru",
            PlacementRule::TinyLfu => "lfu",
            PlacementRule::Arc => "arc",
        }
    }

    fn names() -> String {
        Self::ALL.map(PlacementRule::name).join(", ")
    }
}

impl fmt::Display for PlacementRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PlacementRule {
    type Err = UnknownPlacementRule;

    fn from_str(name: &str) -> Result<Self, UnknownPlacementRule> {
        let found = Self::ALL.into_iter().find(|rule| rule.name() == name);
        found.ok_or_else(|| UnknownPlacementRule { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::PlacementRule;

    #[test]
    fn names_lead_back_to_their_rules_and_others_are_refused_with_the_list() {
        for rule in PlacementRule::ALL {
            assert_eq!(rule.to_string().parse(), Ok(rule));
        }
        let error = "LRU".parse::<PlacementRule>().expect_err("names are in lower case");
        assert_eq!(
            error.to_string(),
            "there is no placement rule \"LRU\": use one of lru, lfu, arc"
        );
        assert_eq!(PlacementRule::default(), PlacementRule::Lru);
    }
}
