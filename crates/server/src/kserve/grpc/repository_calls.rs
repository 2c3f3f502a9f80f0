//! What `RepositoryIndex`, `RepositoryModelLoad` and `RepositoryModelUnload` take and give.

use std::collections::BTreeMap;

use crate::kserve::config_json::read_model_config_json;
use crate::kserve::infer_error::InferError;
use crate::kserve::messages::model_repository_parameter::ParameterChoice;
use crate::kserve::messages::repository_index_response::ModelIndex;
use crate::kserve::messages::{ModelRepositoryParameter, RepositoryIndexResponse};
use crate::kserve::model_registry::{IndexedModel, LoadParameters, ModelState};

type Given = BTreeMap<String, ModelRepositoryParameter>;

pub fn index_response(rows: Vec<IndexedModel>) -> RepositoryIndexResponse {
    let row = |IndexedModel { name, version, state, reason }: IndexedModel| ModelIndex {
        name,
        version: version.map(|number| number.to_string()).unwrap_or_default(),
        state: state.map(ModelState::name).unwrap_or_default().to_owned(),
        reason,
    };
    RepositoryIndexResponse { models: rows.into_iter().map(row).collect() }
}

pub fn load_parameters(given: Given) -> Result<LoadParameters, InferError> {
    let mut parameters = LoadParameters::default();
    for (name, value) in given {
        match (name.as_str(), name.strip_prefix("file:"), value.parameter_choice) {
            ("config", _, Some(ParameterChoice::StringParam(json))) => {
                let config = read_model_config_json(&json).map_err(|why| {
                    let why = format!("parameter config is no model configuration: {why}");
                    InferError::invalid(why)
                })?;
                parameters.config = Some(config);
            }
            (_, Some(path), Some(ParameterChoice::BytesParam(content))) => {
                parameters.add_file(path, content)?;
            }
            ("config", ..) => return Err(InferError::invalid("parameter config must be a text")),
            (_, Some(_), _) => {
                return Err(InferError::invalid(format!("parameter {name:?} must be bytes")));
            }
            _ => return Err(unknown(&name)),
        }
    }
    Ok(parameters)
}

/// No model has others that depend on it, so there is nothing to do about them.
pub fn unload_parameters(given: Given) -> Result<(), InferError> {
    for (name, value) in given {
        match (name.as_str(), value.parameter_choice) {
            ("unload_dependents", Some(ParameterChoice::BoolParam(_))) => {}
            ("unload_dependents", _) => {
                let message = "parameter unload_dependents must be true or false";
                return Err(InferError::invalid(message));
            }
            _ => return Err(unknown(&name)),
        }
    }
    Ok(())
}

fn unknown(name: &str) -> InferError {
    InferError::invalid(format!("unknown parameter {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, choice: Option<ParameterChoice>) -> Given {
        let value = ModelRepositoryParameter { parameter_choice: choice };
        BTreeMap::from([(name.to_owned(), value)])
    }

    #[test]
    fn parameters_are_taken_by_their_kind() {
        let config = ParameterChoice::StringParam(r#"{"name": "m"}"#.to_owned());
        let found = load_parameters(given("config", Some(config))).expect("nothing is wrong");
        assert_eq!(found.config.map(|it| it.name), Some("m".to_owned()));
        let file = ParameterChoice::BytesParam("x".into());
        let found = load_parameters(given("file:1/a", Some(file))).expect("nothing is wrong");
        assert_eq!(found.files["1/a"], "x");
        let flag = || Some(ParameterChoice::BoolParam(true));
        assert_eq!(unload_parameters(given("unload_dependents", flag())), Ok(()));
        for (given, part) in [
            (given("config", flag()), "must be a text"),
            (given("file:a", flag()), "must be bytes"),
            (given("file:/a", Some(ParameterChoice::BytesParam("".into()))), "no path below"),
            (given("zip", flag()), "unknown parameter \"zip\""),
            (given("zip", None), "unknown parameter \"zip\""),
        ] {
            let error = load_parameters(given).expect_err(part).message;
            assert!(error.contains(part), "{error}");
        }
        assert!(unload_parameters(given("unload_dependents", None)).is_err());
        assert!(unload_parameters(given("config", flag())).is_err());
    }
}
