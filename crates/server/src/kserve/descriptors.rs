//! The descriptors of the messages, by which text and JSON are read.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, MessageDescriptor};

use super::messages::DESCRIPTORS;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("they were compiled with this"));

/// Of a model's configuration.
pub fn model_config_descriptor() -> MessageDescriptor {
    POOL.get_message_by_name("inference.ModelConfig").expect("it is one of them")
}

/// The paths that gRPC's methods are called by.
pub fn method_paths() -> Vec<String> {
    let service = POOL.get_service_by_name("inference.GRPCInferenceService");
    let service = service.expect("it is one of them");
    let name = service.full_name();
    service.methods().map(|method| format!("/{name}/{}", method.name())).collect()
}
