//! `POST /v2/repository/index`, `POST /v2/repository/models/{model}/load` and `…/unload`

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::model_path::ModelPath;
use crate::api_error::{ApiResult, JsonReply};
use crate::app_state::AppState;
use crate::docs::{IndexBody, InferRefusals, LoadBody, UnloadBody};
use crate::fields::{Fields, read_body};
use crate::kserve::config_json::read_model_config_json;
use crate::kserve::infer_error::InferError;
use crate::kserve::model_registry::{IndexedModel, LoadParameters, ModelState};

/// A model, in one version.
#[derive(Serialize, ToSchema)]
#[schema(as = kserve::IndexedModel)]
pub struct IndexShape {
    /// The model.
    name: String,
    /// Its version; absent where none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// `LOADING`, `READY`, `UNLOADING` or `UNAVAILABLE`; absent where it was never loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// Why it is not ready, or why it could not be loaded again.
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
}

impl IndexShape {
    fn of(model: IndexedModel) -> Self {
        let IndexedModel { name, version, state, reason } = model;
        Self {
            name,
            version: version.map(|number| number.to_string()),
            state: state.map(ModelState::name),
            reason,
        }
    }
}

/// All models that there are, with their states.
#[utoipa::path(post, path = "/v2/repository/index", tag = "Inference",
    operation_id = "repositoryIndex", request_body = IndexBody,
    responses((status = 200, description = "all of them", body = Vec<IndexShape>), InferRefusals))]
pub async fn index(
    State(state): State<Arc<AppState>>,
    request: Request,
) -> JsonReply<Vec<IndexShape>> {
    let mut fields = fields_of(request, &state).await?;
    let ready = fields.take("ready")?.unwrap_or(false);
    // There is one repository.
    fields.ignore(&["repository_name"]);
    fields.finish()?;
    let rows = state.services.inference.index(ready).await?;
    Ok(Json(rows.into_iter().map(IndexShape::of).collect()))
}

/// Loads a model, or loads it again, and answers when it is ready.
///
/// Its versions take the place of those before them at once: no request is refused meanwhile. After
/// an error those before it are served still.
#[utoipa::path(post, path = "/v2/repository/models/{model}/load", tag = "Inference",
    operation_id = "loadModel", request_body = LoadBody,
    params(("model" = String, Path, description = "its name")),
    responses((status = 200, description = "it is ready"), InferRefusals))]
pub async fn load(
    State(state): State<Arc<AppState>>,
    path: ModelPath,
    request: Request,
) -> ApiResult<StatusCode> {
    let given = parameters_of(request, &state).await?;
    let given = load_parameters(given)?;
    state.services.inference.load(&path.model, given).await?;
    Ok(StatusCode::OK)
}

/// Lets a model go: no further request is answered, and those under way are.
#[utoipa::path(post, path = "/v2/repository/models/{model}/unload", tag = "Inference",
    operation_id = "unloadModel", request_body = UnloadBody,
    params(("model" = String, Path, description = "its name")),
    responses((status = 200, description = "it is"), InferRefusals))]
pub async fn unload(
    State(state): State<Arc<AppState>>,
    path: ModelPath,
    request: Request,
) -> ApiResult<StatusCode> {
    let mut given = parameters_of(request, &state).await?;
    // No model has others that depend on it.
    if let Some(value) = given.remove("unload_dependents").filter(|value| !value.is_boolean()) {
        return Err(InferError::invalid(format!(
            "parameter unload_dependents is {value}: it must be true or false"
        ))
        .into());
    }
    refuse_rest(&given)?;
    state.services.inference.unload(&path.model).await?;
    Ok(StatusCode::OK)
}

/// The fields of a body; one that is empty has none.
async fn fields_of(request: Request, state: &AppState) -> ApiResult<Fields> {
    let body = read_body(request, &state.config.limits).await?;
    Fields::parse(if body.trim_ascii().is_empty() { b"{}" } else { &body })
}

async fn parameters_of(request: Request, state: &AppState) -> ApiResult<Map<String, Value>> {
    let mut fields = fields_of(request, state).await?;
    let parameters = fields.take("parameters")?.unwrap_or_default();
    fields.finish()?;
    Ok(parameters)
}

fn load_parameters(mut given: Map<String, Value>) -> Result<LoadParameters, InferError> {
    let mut parameters = LoadParameters::default();
    if let Some(config) = given.remove("config") {
        let Some(json) = config.as_str() else {
            return Err(InferError::invalid(
                "parameter config must be a text: the JSON of a config",
            ));
        };
        let config = read_model_config_json(json);
        parameters.config = Some(config.map_err(|why| {
            InferError::invalid(format!("parameter config is no model configuration: {why}"))
        })?);
    }
    let files: Vec<_> = given.keys().filter(|name| name.starts_with("file:")).cloned().collect();
    for name in files {
        let content = given.remove(&name);
        let text = content.as_ref().and_then(Value::as_str);
        let Some(content) = text.and_then(|text| BASE64_STANDARD.decode(text).ok()) else {
            return Err(InferError::invalid(format!(
                "parameter {name:?} must be the content of a file, in base64"
            )));
        };
        let path = name.strip_prefix("file:").unwrap_or_default();
        parameters.add_file(path, content.into())?;
    }
    refuse_rest(&given)?;
    Ok(parameters)
}

fn refuse_rest(given: &Map<String, Value>) -> Result<(), InferError> {
    match given.keys().next() {
        Some(name) => Err(InferError::invalid(format!("unknown parameter {name:?}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(given: Value) -> Result<LoadParameters, String> {
        let Value::Object(given) = given else { panic!("an object") };
        load_parameters(given).map_err(|error| error.message)
    }

    #[test]
    fn a_configuration_and_files_may_be_given() {
        let given = json!({"config": r#"{"backend": "hugectr"}"#, "file:1/a.json": "e30="});
        let read = read(given).expect("nothing is wrong");
        assert_eq!(read.config.map(|it| it.backend), Some("hugectr".to_owned()));
        assert_eq!(read.files["1/a.json"], "{}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (given, part) in [
            (json!({"config": {}}), "config must be a text"),
            (json!({"config": r#"{"nme": 1}"#}), "no model configuration: "),
            (json!({"file:a": 7}), "parameter \"file:a\" must be the content"),
            (json!({"file:a": "*"}), "in base64"),
            (json!({"file:../a": ""}), "no path below"),
            (json!({"files": "a"}), "unknown parameter \"files\""),
        ] {
            let error = read(given).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
