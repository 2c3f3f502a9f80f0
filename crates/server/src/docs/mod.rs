//! The API described for machines (`GET /openapi.json`) and for people (`GET /docs`).
//!
//! Routes come from the router and responses from the types that are sent, so neither can be
//! forgotten. Requests are read field by field, not into one struct; their bodies are described
//! here, and a test holds that exactly the fields of these descriptions are taken. The page's
//! scripts lie in the binary: nothing is loaded from elsewhere.

mod anthropic_body;
mod chat_body;
mod completion_body;
mod embedding_body;
mod generation_fields;
mod handle_body;
mod kserve_body;
mod ollama_body;
mod ranking_body;
mod refusals;
mod responses_body;
mod table_body;
mod tokenizer_body;
mod users_body;

pub use anthropic_body::{CountTokensBody, MessagesBody};
pub use chat_body::{ChatBody, PlainChatBody};
pub use completion_body::{CompletionBody, PlainCompletionBody};
pub use embedding_body::EmbeddingBody;
pub use handle_body::{HandleBody, HandleChanges};
pub use kserve_body::{IndexBody, InferBodyShape, InferReplyShape, LoadBody, UnloadBody};
pub use ollama_body::{
    OllamaChatBody, OllamaEmbedBody, OllamaEmbeddingsBody, OllamaGenerateBody, OllamaRefusals,
    OllamaShowBody,
};
pub use ranking_body::{RerankBody, ScoreBody};
pub use refusals::{
    AnthropicRefusals, HandleRefusals, InferRefusals, Refusals, TableRefusals, UnknownHandle,
    UnknownModel, UnknownParameter, UnknownResponse, UnknownSession,
};
pub use responses_body::ResponsesBody;
pub use table_body::{TableKeysBody, TableLookupBody};
pub use tokenizer_body::{DetokenizeBody, TokenizeBody};
pub use users_body::{EventsBody, KvUsersBody, ModelBody, RankBody, RetrieveBody, UserHistoryBody};

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder, SecurityRequirement};
use utoipa::{PartialSchema as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::kserve::InferErrorShape;
use crate::middleware::unknown_path;

pub const PAGE: &str = "/docs";
pub const DOCUMENT: &str = "/openapi.json";

/// The routes, with the page and the document about them.
pub fn with_docs<S: Clone + Send + Sync + 'static>(routes: OpenApiRouter<S>) -> Router<S> {
    let (router, routes) = routes.split_for_parts();
    let page = Config::default().try_it_out_enabled(true);
    let page = SwaggerUi::new(PAGE).url(DOCUMENT, document(routes)).config(page);
    router.merge(Router::from(page).layer(from_fn(no_such_file)))
}

/// The page's own response to an unknown file is empty, and to a name that is not UTF-8 plain text;
/// here errors have one shape.
async fn no_such_file(uri: Uri, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    match response.status() {
        StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => unknown_path(uri).await.into_response(),
        _ => response,
    }
}

fn document(routes: OpenApi) -> OpenApi {
    let about = InfoBuilder::new().title("Terrace").version(env!("CARGO_PKG_VERSION")).description(
        Some("Language models behind OpenAI's routes, recommenders, and embedding tables."),
    );
    let mut document = OpenApiBuilder::from(routes).info(about.build()).build();
    // The router's sign for "the rest of the path, slashes too" is not known to OpenAPI.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths =
        paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    let key = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
    let key = key.description(Some("Needed where the server was started with --api-key."));
    let components = document.components.get_or_insert_default();
    // Refusals name it, and no response is it alone.
    let shape = <InferErrorShape<'_>>::name().into_owned();
    components.schemas.insert(shape, <InferErrorShape<'_>>::schema());
    components.add_security_scheme("key", SecurityScheme::Http(key.build()));
    let no_scopes: [&str; 0] = [];
    let either = [SecurityRequirement::new("key", no_scopes), SecurityRequirement::default()];
    document.security = Some(either.into());
    document
}

#[cfg(test)]
mod compatibility;
#[cfg(test)]
pub mod tests;
