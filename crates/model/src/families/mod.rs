//! Published model families, each mapped to the one decoder.
//!
//! A family says what its configuration means ([`Family::spec`]) and where its tensors are
//! ([`Family::names`], or [`Family::tensors`] where they are laid out otherwise than most). To add
//! one, write a file with what differs and add it to [`Families::known`];
//! from outside the crate, call [`Families::with`].

mod family;
mod llama;
mod qwen;
mod standard;
mod tensor_names;
mod yi;

use std::sync::Arc;

use crate::config::ModelConfig;
use crate::decoder::DecoderTensors;
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use crate::weights::Weights;

pub use family::Family;
pub use standard::{standard_spec, standard_tensors};
pub use tensor_names::TensorNames;

/// The families a loader knows.
#[derive(Clone)]
pub struct Families {
    list: Vec<Arc<dyn Family>>,
}

impl Families {
    pub fn known() -> Self {
        Families { list: vec![Arc::new(llama::Llama), Arc::new(qwen::Qwen), Arc::new(yi::Yi)] }
    }

    /// Adds a family; it goes before the known ones, so it can replace one.
    pub fn with(mut self, family: Arc<dyn Family>) -> Self {
        self.list.insert(0, family);
        self
    }

    /// The decoder that a configuration describes, and its tensors.
    pub fn read(
        &self,
        config: &ModelConfig,
        weights: &Weights,
    ) -> Result<(DecoderSpec, DecoderTensors), Error> {
        let family = self.find(config)?;
        let spec = family.spec(config, weights)?;
        spec.check()?;
        let tensors = family.tensors(config, &spec, weights)?;
        Ok((spec, tensors))
    }

    fn find(&self, config: &ModelConfig) -> Result<&dyn Family, Error> {
        let wanted = config.model_type()?;
        let found = self.list.iter().find(|family| family.model_types().contains(&wanted));
        found.map(|family| family.as_ref()).ok_or_else(|| {
            let known: Vec<_> = self.list.iter().flat_map(|family| family.model_types()).collect();
            Error::Unsupported(format!("model type {wanted:?} (known: {known:?})"))
        })
    }
}
