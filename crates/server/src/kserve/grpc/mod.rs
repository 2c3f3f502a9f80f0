//! The protocol over gRPC, on the same port as HTTP.
//!
//! Calls are requests under HTTP/2, so that they pass what all requests do: keys, limits, the log.

mod call;
mod infer_message;
mod inference_calls;
mod replies;
mod repository_calls;
mod service;
mod settings_calls;
mod status;
mod timed_body;

use std::sync::Arc;

use axum::Router;
use tonic::codec::CompressionEncoding;

use super::descriptors::method_paths;
use super::messages::grpc_inference_service_server::GrpcInferenceServiceServer;
use crate::app_state::AppState;
pub use infer_message::read_request;
pub use replies::as_grpc;
use service::InferenceService;

/// The methods, each a route of its own.
pub fn routes(state: &Arc<AppState>) -> Router<Arc<AppState>> {
    let service = GrpcInferenceServiceServer::new(InferenceService::new(Arc::clone(state)))
        .max_decoding_message_size(state.config.limits.body_bytes)
        .max_encoding_message_size(usize::MAX)
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Deflate);
    let paths = method_paths().into_iter();
    paths.fold(Router::new(), |router, path| router.route_service(&path, service.clone()))
}
