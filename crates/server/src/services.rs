//! What this server serves, by kind.
//!
//! Each kind is a field with a type of its own, which its routes use; kinds have no type in common.

use crate::language::LanguageService;
use crate::ranking::RankingService;

#[derive(Default)]
pub struct Services {
    pub language: LanguageService,
    pub ranking: RankingService,
}

impl Services {
    /// Whether there is a model, and the engines of all run.
    pub fn are_running(&self) -> bool {
        let Services { language, ranking } = self;
        let is_empty = language.models().is_empty() && ranking.models().is_empty();
        !is_empty && language.is_running() && ranking.is_running()
    }
}
