//! What this server serves, by kind.
//!
//! Each kind is a field with a type of its own, which its routes use; kinds have no type in common.

use crate::language::LanguageService;
use crate::ranking::RankingService;
use crate::tables::TableService;

#[derive(Default)]
pub struct Services {
    pub language: LanguageService,
    pub ranking: RankingService,
    pub tables: TableService,
}

impl Services {
    /// Whether there is something to serve, and the engines and consumers of all run.
    pub fn are_running(&self) -> bool {
        let Services { language, ranking, tables } = self;
        let has_models = !language.models().is_empty() || !ranking.models().is_empty();
        let is_empty = !has_models && tables.is_empty();
        !is_empty && language.is_running() && ranking.is_running() && tables.is_running()
    }
}
