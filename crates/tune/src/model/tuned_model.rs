//! The weights of a decoder, with names, gradients' numbers and branches for what is trained.

use std::ops::Range;

use terrace_kernels::random::SplitMix;
use terrace_kernels::{BiasedWeight, Matrix, TuneOps, unpack_row};
use terrace_model::{DecoderSpec, DecoderTensors, LayerTensors, LoraKind};

use super::gradients::Gradients;
use super::layer_weights::{LayerDims, LayerWeights};
use super::parameter::{
    Change, MatrixParameter, ParameterId, ParameterInfo, ParameterList, VectorParameter,
};
use super::projection::{Lora, LoraForm, Projection};
use super::training::{LoraOptions, LoraTargets, Training, WeightsAt};
use crate::error::Error;
use crate::head::Head;

/// Weights that are not trained stay in their file's bytes; trained ones are f32.
pub struct TunedModel {
    pub(crate) hidden: usize,
    pub(crate) norm_eps: f32,
    pub(crate) embed: MatrixParameter,
    pub(crate) layers: Vec<LayerWeights>,
    pub(crate) final_norm: VectorParameter,
    /// `None` where the embedding's rows score the vocabulary.
    pub(crate) head: Option<Projection>,
    pub(crate) head_model: Head,
    /// The head model's own arrays among all parameters.
    pub(crate) head_parameters: Range<usize>,
    parameters: Vec<ParameterInfo>,
    training: Training,
}

impl TunedModel {
    pub fn new(
        ops: &TuneOps<'_>,
        spec: &DecoderSpec,
        tensors: &DecoderTensors,
        training: Training,
        head_model: Head,
        weights_at: WeightsAt,
    ) -> Result<Self, Error> {
        check(spec, tensors, training, &head_model)?;
        let seed = if let Training::Lora(options) = training { options.seed } else { 0 };
        let random = SplitMix::new(seed);
        let list = ParameterList::default();
        let mut build = Build { ops, training, weights_at, random, list };
        let embed = build.matrix("model.embed_tokens.weight", &tensors.embed)?;
        let layers = spec.layers.iter().zip(&tensors.layers).enumerate();
        let layers = layers
            .map(|(i, (spec, tensors))| {
                build.layer(&format!("model.layers.{i}"), LayerDims::of(spec), tensors)
            })
            .collect::<Result<_, Error>>()?;
        let final_norm = build.vector("model.norm.weight", &tensors.final_norm)?;
        let head = tensors.head.as_ref();
        let head = head.map(|weight| build.head(weight, &head_model)).transpose()?;
        let head_parameters = build.head_parameters(&head_model);
        Ok(TunedModel {
            hidden: spec.hidden,
            norm_eps: spec.norm_eps,
            embed,
            layers,
            final_norm,
            head,
            head_model,
            head_parameters,
            parameters: build.list.infos,
            training,
        })
    }

    /// What is trained, in the order of its gradients.
    pub fn parameters(&self) -> &[ParameterInfo] {
        &self.parameters
    }

    /// The gradients of what is trained: none of anything yet.
    pub fn gradients(&self, ops: &TuneOps<'_>) -> Result<Gradients, Error> {
        let away = self.layers.iter().flat_map(LayerWeights::trained_away);
        Gradients::without(ops, &self.parameters, away)
    }

    pub fn training(&self) -> Training {
        self.training
    }

    pub fn find(&self, name: &str) -> Option<ParameterId> {
        self.parameters.iter().position(|info| info.name == name).map(ParameterId)
    }

    /// Calls `f` with the numbers of each trained array, in any order.
    pub fn change(&mut self, ops: &TuneOps<'_>, f: &mut Change<'_>) -> Result<(), Error> {
        self.embed.change(ops, f)?;
        for layer in &mut self.layers {
            layer.change(ops, f)?;
        }
        self.final_norm.change(ops, f)?;
        if let Some(head) = &mut self.head {
            head.change(ops, f)?;
        }
        if let Head::Model(model) = &mut self.head_model {
            let first = self.head_parameters.start;
            model.change(&mut |index, numbers| f(ParameterId(first + index), numbers));
        }
        Ok(())
    }
}

/// Says what of a model has no gradients here.
fn check(
    spec: &DecoderSpec,
    tensors: &DecoderTensors,
    training: Training,
    head_model: &Head,
) -> Result<(), Error> {
    let refuse = |what: &str, why| Err(Error::Unsupported { what: what.to_owned(), why });
    if spec.dynamic_rope.is_some() {
        return refuse("a model whose rotation grows with its text", "its keys would change later");
    }
    if let Some(adapter) = &tensors.adapter {
        let what = format!("a model with an adapter ({})", adapter.name());
        return refuse(&what, "its branches are not trained on; merge them into the model's files");
    }
    let Training::Lora(options) = training else { return Ok(()) };
    if options.rank == 0 {
        let wanted = "1 or more".to_owned();
        return Err(Error::BadArgument { argument: "lora.r", value: "0".into(), wanted });
    }
    if !(0.0..1.0).contains(&options.dropout) {
        let (argument, value) = ("lora.dropout", options.dropout.to_string());
        return Err(Error::BadArgument { argument, value, wanted: "from 0 to below 1".into() });
    }
    if 0.0 < options.dropout && options.kind == LoraKind::Dora {
        let why = "its rows' lengths are those of all inputs; leave lora.dropout out";
        return refuse("a dora branch that leaves out inputs", why);
    }
    if 0.0 < options.dropout && options.targets.head {
        let why =
            "logits are computed in blocks, of all inputs; leave lora.dropout or lora.head out";
        return refuse("a branch of the head that leaves out inputs", why);
    }
    if options.targets.head && options.kind != LoraKind::Default {
        let why = "logits are computed in blocks, and this kind of branch needs whole rows; \
                   leave lora.head out, or choose the default kind";
        return refuse("the head's branch", why);
    }
    if options.targets.head && !head_model.needs_logits() {
        let why = "this head model takes the last layer's outputs; leave lora.head out";
        return refuse("the head's branch", why);
    }
    if options.targets.head && tensors.head.is_none() {
        return refuse("the head's branch", "the head is the embedding table; leave lora.head out");
    }
    Ok(())
}

struct Build<'a> {
    ops: &'a TuneOps<'a>,
    training: Training,
    weights_at: WeightsAt,
    random: SplitMix,
    list: ParameterList,
}

impl Build<'_> {
    fn layer(
        &mut self,
        name: &str,
        dims: LayerDims,
        tensors: &LayerTensors,
    ) -> Result<LayerWeights, Error> {
        let at = |part: &str| format!("{name}.{part}");
        let head_norm = |part: &str, norm: &Option<Vec<f32>>, build: &mut Self| {
            let norm = norm.as_ref();
            norm.map(|norm| build.vector(&at(part), norm)).transpose()
        };
        let product =
            |part: &str, weight, has_branch: fn(&LoraTargets) -> bool, build: &mut Self| {
                build.layer_projection(&at(part), weight, has_branch)
            };
        // In this order parameters are listed, and branches drawn.
        let attention_norm = self.vector(&at("input_layernorm.weight"), &tensors.attention_norm)?;
        let query = product("self_attn.q_proj", &tensors.query, |on| on.query, self)?;
        let key = product("self_attn.k_proj", &tensors.key, |on| on.key, self)?;
        let value = product("self_attn.v_proj", &tensors.value, |on| on.value, self)?;
        let query_norm = head_norm("self_attn.q_norm.weight", &tensors.query_norm, self)?;
        let key_norm = head_norm("self_attn.k_norm.weight", &tensors.key_norm, self)?;
        let output = product("self_attn.o_proj", &tensors.output, |on| on.projection, self)?;
        let ffn_norm = self.vector(&at("post_attention_layernorm.weight"), &tensors.ffn_norm)?;
        let gate = product("mlp.gate_proj", &tensors.gate, |on| on.mlp, self)?;
        let up = product("mlp.up_proj", &tensors.up, |on| on.mlp, self)?;
        let down = product("mlp.down_proj", &tensors.down, |on| on.mlp, self)?;
        let products = [query, key, value, output, gate, up, down];
        Ok(LayerWeights { dims, attention_norm, query_norm, key_norm, ffn_norm, products })
    }

    fn head(&mut self, weight: &Matrix, head_model: &Head) -> Result<Projection, Error> {
        if !head_model.needs_logits() {
            let base = MatrixParameter::frozen(self.ops, weight.clone())?;
            return Ok(Projection { base, bias: None, lora: None });
        }
        let biased = BiasedWeight { weight: weight.clone(), bias: None };
        let base = self.matrix("lm_head.weight", weight)?;
        self.projection("lm_head", base, &biased, |on| on.head)
    }

    /// Puts the head model's own arrays on the list.
    fn head_parameters(&mut self, head_model: &Head) -> Range<usize> {
        let first = self.list.infos.len();
        if let Head::Model(model) = head_model {
            for ParameterInfo { name, shape } in model.parameters() {
                self.list.add(format!("head_model.{name}"), &shape);
            }
        }
        first..self.list.infos.len()
    }

    fn vector(&mut self, name: &str, numbers: &[f32]) -> Result<VectorParameter, Error> {
        let is_trained = self.training == Training::Full;
        let id = is_trained.then(|| self.list.add(name.to_owned(), &[numbers.len()]));
        VectorParameter::of(self.ops, numbers, id)
    }

    fn matrix(&mut self, name: &str, weight: &Matrix) -> Result<MatrixParameter, Error> {
        match self.listed(name, weight) {
            Some(id) => MatrixParameter::trained(self.ops, weight, id),
            None => MatrixParameter::frozen(self.ops, weight.clone()),
        }
    }

    /// Its place among what is trained, if it is.
    fn listed(&mut self, name: &str, weight: &Matrix) -> Option<ParameterId> {
        let shape = [weight.rows(), weight.columns()];
        (self.training == Training::Full).then(|| self.list.add(name.to_owned(), &shape))
    }

    /// Of a layer, whose weights may be away.
    fn layer_projection(
        &mut self,
        name: &str,
        biased: &BiasedWeight,
        has_branch: fn(&LoraTargets) -> bool,
    ) -> Result<Projection, Error> {
        let (ops, weight) = (self.ops, &biased.weight);
        let base = match self.weights_at {
            WeightsAt::Device => self.matrix(&format!("{name}.weight"), weight)?,
            WeightsAt::Host => {
                let id = self.listed(&format!("{name}.weight"), weight);
                MatrixParameter::away(ops, weight, id)?
            }
        };
        self.projection(name, base, biased, has_branch)
    }

    fn projection(
        &mut self,
        name: &str,
        base: MatrixParameter,
        biased: &BiasedWeight,
        has_branch: fn(&LoraTargets) -> bool,
    ) -> Result<Projection, Error> {
        let bias = biased.bias.as_ref();
        let bias = bias.map(|bias| self.vector(&format!("{name}.bias"), bias)).transpose()?;
        let lora = match self.training {
            Training::Lora(options) if has_branch(&options.targets) => {
                Some(self.lora(name, &biased.weight, &options)?)
            }
            _ => None,
        };
        Ok(Projection { base, bias, lora })
    }

    /// The first matrix is drawn as `torch.nn.init.kaiming_uniform_` with `a = sqrt(5)` does: from
    /// `±1 / sqrt(columns)`.
    fn lora(&mut self, name: &str, weight: &Matrix, options: &LoraOptions) -> Result<Lora, Error> {
        let (rows, columns, rank) = (weight.rows(), weight.columns(), options.rank);
        let bound = 1.0 / (columns as f32).sqrt();
        let first: Vec<f32> =
            self.random.numbers(rank * columns).into_iter().map(|x| x * bound).collect();
        let a = self.list.add(format!("{name}.lora_A.weight"), &[rank, columns]);
        let b = self.list.add(format!("{name}.lora_B.weight"), &[rows, rank]);
        let form = match options.kind {
            LoraKind::Default => LoraForm::Default,
            LoraKind::RmsNorm => {
                let id = self.list.add(format!("{name}.lora_norm.weight"), &[rows]);
                LoraForm::RmsNorm(VectorParameter::of(self.ops, &vec![1.0; rows], Some(id))?)
            }
            LoraKind::Dora => {
                let id = self.list.add(format!("{name}.lora_magnitude_vector.weight"), &[rows]);
                LoraForm::Dora(VectorParameter::of(self.ops, &row_norms(weight), Some(id))?)
            }
        };
        Ok(Lora {
            a: MatrixParameter::of(self.ops, &first, rank, Some(a))?,
            b: MatrixParameter::of(self.ops, &vec![0.0; rows * rank], rows, Some(b))?,
            scale: options.scale(),
            dropout: options.dropout,
            form,
        })
    }
}

/// The Euclidean norm of each row, with which a row's trained length begins.
fn row_norms(weight: &Matrix) -> Vec<f32> {
    let mut unpacked = vec![0.0; weight.columns()];
    let norm = |row: usize| {
        unpack_row(weight.format(), weight.row(row), &mut unpacked);
        unpacked.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32
    };
    (0..weight.rows()).map(norm).collect()
}
