//! The methods of `inference.GRPCInferenceService`.

use std::collections::BTreeMap;
use std::sync::Arc;

use tonic::{Request, Response, Status, Streaming};

use super::call::Call;
use super::inference_calls::{InferStream, infer_once, infer_stream};
use super::repository_calls::{index_response, load_parameters, unload_parameters};
use super::settings_calls::{log_response, trace_response};
use crate::app_state::AppState;
use crate::kserve::inference_model::TensorMetadata;
use crate::kserve::messages::grpc_inference_service_server::GrpcInferenceService;
use crate::kserve::messages::model_metadata_response::TensorMetadata as TensorMessage;
use crate::kserve::messages::*;
use crate::kserve::server_metadata::{EXTENSIONS, SERVER_NAME, SERVER_VERSION};
use crate::kserve::shared_memory::{no_regions, unknown_region};
use crate::kserve::statistics::statistics_of;

pub struct InferenceService {
    state: Arc<AppState>,
}

type Reply<T> = Result<Response<T>, Status>;

impl InferenceService {
    pub fn new(state: Arc<AppState>) -> Self {
        Self { state }
    }
}

#[tonic::async_trait]
impl GrpcInferenceService for InferenceService {
    async fn server_live(&self, _: Request<ServerLiveRequest>) -> Reply<ServerLiveResponse> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(&self, _: Request<ServerReadyRequest>) -> Reply<ServerReadyResponse> {
        let ready = self.state.services.are_running();
        Ok(Response::new(ServerReadyResponse { ready }))
    }

    async fn model_ready(&self, request: Request<ModelReadyRequest>) -> Reply<ModelReadyResponse> {
        let ModelReadyRequest { name, version } = request.into_inner();
        let served = self.state.services.inference.find(&name, &version);
        let ready = served.is_ok_and(|served| served.is_ready());
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Reply<ServerMetadataResponse> {
        Ok(Response::new(ServerMetadataResponse {
            name: SERVER_NAME.to_owned(),
            version: SERVER_VERSION.to_owned(),
            extensions: EXTENSIONS.map(str::to_owned).to_vec(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Reply<ModelMetadataResponse> {
        let ModelMetadataRequest { name, version } = request.into_inner();
        let models = &self.state.services.inference;
        let (served, all) = (models.find(&name, &version)?, models.served(&name, &version)?);
        let metadata = served.metadata();
        Ok(Response::new(ModelMetadataResponse {
            name: metadata.name.clone(),
            versions: all.iter().map(|it| it.metadata().version.to_string()).collect(),
            platform: metadata.platform.clone(),
            inputs: metadata.inputs.iter().map(tensor_message).collect(),
            outputs: metadata.outputs.iter().map(tensor_message).collect(),
        }))
    }

    async fn model_infer(&self, request: Request<ModelInferRequest>) -> Reply<ModelInferResponse> {
        let call = Call::new(request.extensions(), &self.state);
        infer_once(&self.state, &call, request.into_inner()).await
    }

    type ModelStreamInferStream = InferStream;

    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Reply<InferStream> {
        let call = Call::new(request.extensions(), &self.state);
        let ends_at_error = request.metadata().get("triton_grpc_error");
        let ends_at_error = ends_at_error.is_some_and(|value| value == "true");
        let messages = request.into_inner();
        let stream = infer_stream(Arc::clone(&self.state), call, messages, ends_at_error);
        Ok(Response::new(stream))
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> Reply<ModelConfigResponse> {
        let ModelConfigRequest { name, version } = request.into_inner();
        let served = self.state.services.inference.find(&name, &version)?;
        Ok(Response::new(ModelConfigResponse { config: Some(served.config()) }))
    }

    async fn model_statistics(
        &self,
        request: Request<ModelStatisticsRequest>,
    ) -> Reply<ModelStatisticsResponse> {
        let ModelStatisticsRequest { name, version } = request.into_inner();
        let served = self.state.services.inference.served(&name, &version)?;
        let model_stats = served.iter().map(|served| statistics_of(served)).collect();
        Ok(Response::new(ModelStatisticsResponse { model_stats }))
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> Reply<RepositoryIndexResponse> {
        let rows = self.state.services.inference.index(request.into_inner().ready).await?;
        Ok(Response::new(index_response(rows)))
    }

    async fn repository_model_load(
        &self,
        request: Request<RepositoryModelLoadRequest>,
    ) -> Reply<RepositoryModelLoadResponse> {
        let RepositoryModelLoadRequest { model_name, parameters, .. } = request.into_inner();
        let given = load_parameters(parameters)?;
        self.state.services.inference.load(&model_name, given).await?;
        Ok(Response::new(RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<RepositoryModelUnloadRequest>,
    ) -> Reply<RepositoryModelUnloadResponse> {
        let RepositoryModelUnloadRequest { model_name, parameters, .. } = request.into_inner();
        unload_parameters(parameters)?;
        self.state.services.inference.unload(&model_name).await?;
        Ok(Response::new(RepositoryModelUnloadResponse {}))
    }

    async fn system_shared_memory_status(
        &self,
        request: Request<SystemSharedMemoryStatusRequest>,
    ) -> Reply<SystemSharedMemoryStatusResponse> {
        match request.into_inner().name {
            name if name.is_empty() => {
                let regions = BTreeMap::new();
                Ok(Response::new(SystemSharedMemoryStatusResponse { regions }))
            }
            name => Err(unknown_region("system", &name).into()),
        }
    }

    async fn system_shared_memory_register(
        &self,
        _: Request<SystemSharedMemoryRegisterRequest>,
    ) -> Reply<SystemSharedMemoryRegisterResponse> {
        Err(no_regions("system").into())
    }

    async fn system_shared_memory_unregister(
        &self,
        _: Request<SystemSharedMemoryUnregisterRequest>,
    ) -> Reply<SystemSharedMemoryUnregisterResponse> {
        Ok(Response::new(SystemSharedMemoryUnregisterResponse {}))
    }

    async fn cuda_shared_memory_status(
        &self,
        request: Request<CudaSharedMemoryStatusRequest>,
    ) -> Reply<CudaSharedMemoryStatusResponse> {
        match request.into_inner().name {
            name if name.is_empty() => {
                let regions = BTreeMap::new();
                Ok(Response::new(CudaSharedMemoryStatusResponse { regions }))
            }
            name => Err(unknown_region("CUDA", &name).into()),
        }
    }

    async fn cuda_shared_memory_register(
        &self,
        _: Request<CudaSharedMemoryRegisterRequest>,
    ) -> Reply<CudaSharedMemoryRegisterResponse> {
        Err(no_regions("CUDA").into())
    }

    async fn cuda_shared_memory_unregister(
        &self,
        _: Request<CudaSharedMemoryUnregisterRequest>,
    ) -> Reply<CudaSharedMemoryUnregisterResponse> {
        Ok(Response::new(CudaSharedMemoryUnregisterResponse {}))
    }

    async fn trace_setting(
        &self,
        request: Request<TraceSettingRequest>,
    ) -> Reply<TraceSettingResponse> {
        let TraceSettingRequest { settings, model_name } = request.into_inner();
        if !model_name.is_empty() {
            self.state.services.inference.find(&model_name, "")?;
        }
        Ok(Response::new(trace_response(&settings)?))
    }

    async fn log_settings(
        &self,
        request: Request<LogSettingsRequest>,
    ) -> Reply<LogSettingsResponse> {
        Ok(Response::new(log_response(&request.into_inner().settings)?))
    }
}

fn tensor_message(tensor: &TensorMetadata) -> TensorMessage {
    TensorMessage {
        name: tensor.name.clone(),
        datatype: tensor.datatype.name().to_owned(),
        shape: tensor.shape.clone(),
    }
}
