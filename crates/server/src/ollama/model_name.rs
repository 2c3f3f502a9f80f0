//! Names of models as Ollama's clients write them: `name`, or `name:latest`, which is the same.

use std::sync::Arc;

use crate::api_error::ApiResult;
use crate::app_state::AppState;
use crate::fields::Fields;
use crate::language::ServedModel;

const LATEST: &str = ":latest";

/// Which model is requested; older clients call the field `name`.
pub fn take_name(fields: &mut Fields, names: &[&str]) -> ApiResult<Option<String>> {
    Ok(fields.take_alias::<String>(names)?.filter(|name| !name.is_empty()))
}

/// The model of that name with or without `:latest`; without a name, the only one there is.
pub fn find(state: &AppState, name: Option<&str>) -> ApiResult<Arc<ServedModel>> {
    let exact = state.services.language.model(name);
    let Some(name) = name.filter(|_| exact.is_err()) else { return exact };
    let other = match name.strip_suffix(LATEST) {
        Some(plain) => plain.to_owned(),
        None => tagged(name),
    };
    // The complaint is about the name that was sent.
    state.services.language.model(Some(&other)).or(exact)
}

/// The name with a tag, as Ollama lists models.
pub fn tagged(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') { name.to_owned() } else { format!("{name}{LATEST}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_tag() {
        assert_eq!(tagged("smollm2"), "smollm2:latest");
        assert_eq!(tagged("smollm2:135m"), "smollm2:135m");
        assert_eq!(tagged("host:80/smollm2"), "host:80/smollm2:latest");
    }
}
