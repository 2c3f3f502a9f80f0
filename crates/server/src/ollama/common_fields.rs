//! What `/api/chat` and `/api/generate` both take, and do with it in the same way.

use std::sync::Arc;
use std::time::Instant;

use axum::response::Response;
use terrace_engine::guidance::Grammar;

use crate::api_error::ApiError;
use crate::chat::ChatOutputs;
use crate::fields::Fields;
use crate::language::{RequestOptions, ServedModel};
use crate::ollama::line_writer::{LineKind, LineWriter};
use crate::ollama::model_name;
use crate::ollama::request_fields::{Stay, Think, refuse_shortening, take_format, take_stream};
use crate::ollama::sampling_options::{SamplingOptions, in_clients_words};
use crate::openai::chat::take_logprobs;
use crate::state::AppState;

#[derive(Debug)]
pub struct CommonFields {
    model: Option<String>,
    format: Option<Grammar>,
    sampling: SamplingOptions,
    logprobs: Option<usize>,
    pub think: Think,
    pub stream: bool,
    pub stay: Stay,
}

impl CommonFields {
    pub fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let common = Self {
            model: model_name::take_name(fields, &["model"])?,
            format: take_format(fields)?,
            sampling: SamplingOptions::take(fields)?,
            logprobs: take_logprobs(fields)?,
            think: Think::take(fields)?,
            stream: take_stream(fields)?,
            stay: Stay::take(fields)?,
        };
        refuse_shortening(fields)?;
        Ok(common)
    }

    /// The requested model, and the name it is called by.
    pub fn model(&self, state: &AppState) -> Result<(Arc<ServedModel>, String), ApiError> {
        let model = model_name::find(state, self.model.as_deref())?;
        let name = self.model.clone().unwrap_or_else(|| model.name().to_owned());
        Ok((model, name))
    }

    /// How to generate, if the model can do what is requested.
    pub fn options(&self, model: &ServedModel) -> Result<RequestOptions, ApiError> {
        self.sampling.check_context(model)?;
        self.think.check(model)?;
        Ok(self.sampling.clone().request(model, self.format.clone(), self.logprobs))
    }

    pub async fn respond(
        &self,
        kind: LineKind,
        name: String,
        started: Instant,
        outputs: Result<ChatOutputs, ApiError>,
    ) -> Result<Response, ApiError> {
        let outputs = outputs.map_err(in_clients_words)?;
        let names = self.logprobs.map(|_| outputs.model().token_names());
        LineWriter::new(kind, name, names, started).respond(outputs, self.stream).await
    }
}
