//! `/v2/systemsharedmemory/…` and `/v2/cudasharedmemory/…`: there are no regions, and none is
//! registered.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api_error::{ApiError, JsonReply};
use crate::docs::InferRefusals;
use crate::kserve::shared_memory::{no_regions, unknown_region};

const SYSTEM: &str = "system";
const CUDA: &str = "CUDA";

/// Never there.
#[derive(Serialize, ToSchema)]
#[schema(as = kserve::SharedMemoryRegion)]
pub enum Region {}

/// The regions of system memory that are shared: none.
#[utoipa::path(get, path = "/v2/systemsharedmemory/status", tag = "Inference",
    operation_id = "systemSharedMemoryStatus",
    responses((status = 200, description = "an empty list", body = Vec<Region>)))]
pub async fn system_status() -> Json<Vec<Region>> {
    Json(Vec::new())
}

/// The regions of GPUs' memory that are shared: none.
#[utoipa::path(get, path = "/v2/cudasharedmemory/status", tag = "Inference",
    operation_id = "cudaSharedMemoryStatus",
    responses((status = 200, description = "an empty list", body = Vec<Region>)))]
pub async fn cuda_status() -> Json<Vec<Region>> {
    Json(Vec::new())
}

/// One region of system memory: there is none.
#[utoipa::path(get, path = "/v2/systemsharedmemory/region/{region}/status", tag = "Inference",
    operation_id = "systemSharedMemoryRegion",
    params(("region" = String, Path, description = "its name")), responses(InferRefusals))]
pub async fn system_region(Path(region): Path<String>) -> JsonReply<Vec<Region>> {
    Err(unknown_region(SYSTEM, &region).into())
}

/// One region of a GPU's memory: there is none.
#[utoipa::path(get, path = "/v2/cudasharedmemory/region/{region}/status", tag = "Inference",
    operation_id = "cudaSharedMemoryRegion",
    params(("region" = String, Path, description = "its name")), responses(InferRefusals))]
pub async fn cuda_region(Path(region): Path<String>) -> JsonReply<Vec<Region>> {
    Err(unknown_region(CUDA, &region).into())
}

/// Registers a region of system memory: refused.
#[utoipa::path(post, path = "/v2/systemsharedmemory/region/{region}/register", tag = "Inference",
    operation_id = "registerSystemSharedMemory",
    params(("region" = String, Path, description = "its name")), responses(InferRefusals))]
pub async fn system_register() -> ApiError {
    no_regions(SYSTEM).into()
}

/// Registers a region of a GPU's memory: refused.
#[utoipa::path(post, path = "/v2/cudasharedmemory/region/{region}/register", tag = "Inference",
    operation_id = "registerCudaSharedMemory",
    params(("region" = String, Path, description = "its name")), responses(InferRefusals))]
pub async fn cuda_register() -> ApiError {
    no_regions(CUDA).into()
}

/// Takes registrations back; there are none afterwards, nor before. Also for one region.
#[utoipa::path(post, path = "/v2/systemsharedmemory/unregister", tag = "Inference",
    operation_id = "unregisterSystemSharedMemory",
    responses((status = 200, description = "there are none")))]
pub async fn system_unregister() -> StatusCode {
    StatusCode::OK
}

/// Takes registrations back; there are none afterwards, nor before. Also for one region.
#[utoipa::path(post, path = "/v2/cudasharedmemory/unregister", tag = "Inference",
    operation_id = "unregisterCudaSharedMemory",
    responses((status = 200, description = "there are none")))]
pub async fn cuda_unregister() -> StatusCode {
    StatusCode::OK
}
