//! What most families share: Llama's configuration keys and layout of tensors.

use terrace_kernels::{Activation, BiasedWeight, Matrix, RopeStyle};

use crate::config::{ConfigFormat, ModelConfig};
use crate::context_rope::TrainedRope;
use crate::decoder::{DecoderTensors, LayerTensors};
use crate::decoder_spec::DecoderSpec;
use crate::error::Error;
use crate::families::TensorNames;
use crate::layer_spec::{AttentionSpec, FfnSpec, GatedSpec, GroupedQuerySpec, LayerSpec};
use crate::rope_spec::RopeSpec;
use crate::weights::Weights;

/// GGUF files keep Llama 3's scaled rotation as a tensor instead of settings.
const GGUF_ROPE_FACTORS: &str = "rope_freqs.weight";

/// Reads the keys that Llama's `config.json` has; all layers are alike, but for their window.
pub fn standard_spec(config: &ModelConfig, source: &Weights) -> Result<DecoderSpec, Error> {
    let hidden = config.count("hidden_size")?;
    let heads = config.count("num_attention_heads")?;
    let kv_heads = config.count_or_absent("num_key_value_heads")?.unwrap_or(heads);
    let head_dim = match config.count_or_absent("head_dim")? {
        Some(dim) => dim,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            return Err(Error::Config(format!(
                "hidden_size {hidden} is not divisible by num_attention_heads {heads}"
            )));
        }
    };
    let layers = config.count("num_hidden_layers")?;
    DecoderSpec::check_layer_count(layers)?;
    let context_tokens = config.count("max_position_embeddings")?;
    let window = config.count_or_absent("sliding_window")?;
    let windowed = config.windowed_layers(layers, window.is_some())?;
    let ffn =
        GatedSpec { width: config.count("intermediate_size")?, activation: activation(config)? };
    let layer = |windowed: bool| LayerSpec {
        attention: AttentionSpec::GroupedQuery(GroupedQuerySpec {
            heads,
            kv_heads,
            head_dim,
            scale: 1.0 / (head_dim as f32).sqrt(),
            rope: 0,
            window: window.filter(|_| windowed),
        }),
        ffn: FfnSpec::Gated(ffn.clone()),
    };
    let (settings, style) = (config.rope_settings(), rope_style(config)?);
    let mut rope = RopeSpec::new(&settings, head_dim, context_tokens, style)?;
    let mut trained = TrainedRope::new(&settings, head_dim, head_dim, context_tokens, style)?;
    if source.info(GGUF_ROPE_FACTORS).is_some() {
        rope.divide_by(&source.vector(GGUF_ROPE_FACTORS)?)?;
        trained = trained.already_scaled();
    }
    Ok(DecoderSpec {
        vocab: config.count("vocab_size")?,
        hidden,
        context_tokens,
        norm_eps: config.number("rms_norm_eps")? as f32,
        ropes: vec![rope],
        trained_rope: Some(trained),
        dynamic_rope: None,
        layers: windowed.into_iter().map(layer).collect(),
        tied_head: config.flag("tie_word_embeddings")?,
    })
}

/// Finds the tensors by name and checks their shapes. A bias or a head norm is used when the file
/// has it; everything else must be there.
pub fn standard_tensors(
    spec: &DecoderSpec,
    source: &Weights,
    names: &TensorNames,
) -> Result<DecoderTensors, Error> {
    let finder = Finder { source, names };
    let embed = finder.matrix(names.embed, spec.vocab, spec.hidden)?;
    let head = if spec.tied_head {
        None
    } else {
        Some(finder.matrix(names.head, spec.vocab, spec.hidden)?)
    };
    let layers = spec
        .layers
        .iter()
        .enumerate()
        .map(|(index, layer)| finder.layer(index, spec.hidden, layer))
        .collect::<Result<_, Error>>()?;
    Ok(DecoderTensors {
        embed,
        layers,
        final_norm: finder.norm(names.final_norm, spec.hidden)?,
        head,
        adapter: None,
    })
}

fn activation(config: &ModelConfig) -> Result<Activation, Error> {
    match config.str("hidden_act").unwrap_or("silu") {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        other => Err(Error::Unsupported(format!("activation {other:?}"))),
    }
}

/// GGUF's converter reorders Llama's query and key rows so that neighbours rotate together.
fn rope_style(config: &ModelConfig) -> Result<RopeStyle, Error> {
    let reordered = config.format() == ConfigFormat::Gguf && config.model_type()? == "llama";
    Ok(if reordered { RopeStyle::Interleaved } else { RopeStyle::Halves })
}

/// Looks tensors up by the names of one layout.
struct Finder<'a> {
    source: &'a Weights,
    names: &'a TensorNames,
}

impl Finder<'_> {
    fn layer(&self, index: usize, hidden: usize, spec: &LayerSpec) -> Result<LayerTensors, Error> {
        let AttentionSpec::GroupedQuery(attention) = &spec.attention;
        let FfnSpec::Gated(ffn) = &spec.ffn;
        let (query, kv) = (attention.query_width(), attention.kv_width());
        let head_dim = attention.head_dim;
        let name = |tensor: &str| self.names.in_layer(index, tensor);
        let linear = |tensor: &str, rows, columns| self.linear(&name(tensor), rows, columns);
        Ok(LayerTensors {
            attention_norm: self.norm(&name(self.names.attention_norm), hidden)?,
            query: linear(self.names.query, query, hidden)?,
            key: linear(self.names.key, kv, hidden)?,
            value: linear(self.names.value, kv, hidden)?,
            query_norm: self.norm_if_present(&name(self.names.query_norm), head_dim)?,
            key_norm: self.norm_if_present(&name(self.names.key_norm), head_dim)?,
            output: linear(self.names.output, hidden, query)?,
            ffn_norm: self.norm(&name(self.names.ffn_norm), hidden)?,
            gate: linear(self.names.gate, ffn.width, hidden)?,
            up: linear(self.names.up, ffn.width, hidden)?,
            down: linear(self.names.down, hidden, ffn.width)?,
        })
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, Error> {
        let name = format!("{name}.weight");
        self.check_shape(&name, &[rows, columns])?;
        self.source.matrix(&name)
    }

    fn linear(&self, name: &str, rows: usize, columns: usize) -> Result<BiasedWeight, Error> {
        let bias = self.vector_if_present(&format!("{name}.bias"), rows)?;
        Ok(BiasedWeight { weight: self.matrix(name, rows, columns)?, bias })
    }

    fn norm(&self, name: &str, dim: usize) -> Result<Vec<f32>, Error> {
        let name = format!("{name}.weight");
        self.check_shape(&name, &[dim])?;
        self.source.vector(&name)
    }

    fn norm_if_present(&self, name: &str, dim: usize) -> Result<Option<Vec<f32>>, Error> {
        self.vector_if_present(&format!("{name}.weight"), dim)
    }

    fn vector_if_present(&self, name: &str, dim: usize) -> Result<Option<Vec<f32>>, Error> {
        if self.source.info(name).is_none() {
            return Ok(None);
        }
        self.check_shape(name, &[dim])?;
        self.source.vector(name).map(Some)
    }

    fn check_shape(&self, name: &str, wanted: &[usize]) -> Result<(), Error> {
        match self.source.info(name) {
            Some(info) if info.shape != wanted => Err(Error::TensorShape {
                name: name.into(),
                found: info.shape.clone(),
                wanted: wanted.to_vec(),
            }),
            // When it is missing, reading it says so.
            _ => Ok(()),
        }
    }
}
