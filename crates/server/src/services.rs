//! What this server serves, by kind.
//!
//! Each kind is a field with a type of its own, which its routes use; kinds have no type in common.

use crate::language::LanguageService;

#[derive(Default)]
pub struct Services {
    pub language: LanguageService,
}
