//! What is computed in which order: weights, text, and the decoder.
#![forbid(unsafe_code)]

mod adapter;
mod chat_template;
mod config;
mod context_rope;
pub mod ctr;
mod decoder;
mod decoder_spec;
mod dynamic_rope;
mod error;
mod families;
mod files;
mod fingerprint;
mod gguf;
pub mod gin;
pub mod golden;
pub mod hstu;
mod known_shape;
mod layer_group;
mod layer_spec;
mod loaded_model;
mod near_names;
mod new_folder;
mod rope_spec;
mod tensor_info;
mod tokenizer;
pub mod torch_file;
mod weights;

pub use adapter::{
    Adapter, AdapterBranch, AdapterHash, BranchVector, BranchedProduct, LORA_NORM_EPS,
    LayerProduct, LoraKind,
};
pub use chat_template::{ChatTemplate, Message, RenderOptions, SpecialTokenTexts};
pub use config::{ConfigFormat, ModelConfig, RopeSettings};
pub use context_rope::{ContextRope, TrainedRope};
pub use decoder::{
    Decoder, DecoderTensors, KvSegment, LayerLocation, LayerTensors, LayeredKv, PlacedAdapter,
    StepCtx, TokenRows, WorkspaceShape, layer_locations,
};
pub use decoder_spec::DecoderSpec;
pub use dynamic_rope::DynamicRope;
pub use error::Error;
pub use families::{Families, Family, TensorNames, standard_spec, standard_tensors};
pub use fingerprint::{HashStore, ModelFingerprint, WeightsHash, WeightsHashing};
pub use gguf::{FromMetadata, GgufFile, GgufTensor};
pub use known_shape::KnownShape;
pub use layer_group::LayerGroup;
pub use layer_spec::{AttentionSpec, FfnSpec, GatedSpec, GroupedQuerySpec, LayerSpec};
pub use loaded_model::{LoadedModel, ModelText};
pub use near_names::near_names;
pub use new_folder::NewFolder;
pub use rope_spec::RopeSpec;
pub use tensor_info::TensorInfo;
pub use tokenizer::{AddSpecial, SpecialTokens, TokenStream, Tokenizer};
pub use weights::Weights;
