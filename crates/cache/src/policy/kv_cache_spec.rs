//! A cache as a user asked for it, read and checked: `{policy}-{buffer}`, lengths, chunks.

use std::sync::Arc;

use terrace_kernels::Quantiser;

use super::chunk_plan::{ChunkSizes, EXTENSION_MOST, chunk_plan};
use super::compat::Compat;
use super::error::PolicyError;
use super::kv_cache_options::KvCacheOptions;
use super::kv_policy::KvPolicy;
use super::policies::Policies;
use super::rule::{RecentRule, Rule};
use super::slot_format::SlotFormat;

#[derive(Clone, Debug)]
pub struct KvCacheSpec {
    /// As its [`PolicyEntry`](super::PolicyEntry) has it.
    pub policy_name: &'static str,
    pub policy: Arc<dyn KvPolicy>,
    pub keys: SlotFormat,
    pub values: SlotFormat,
    /// Slots of each layer, or of all.
    pub(super) cache_lengths: Vec<usize>,
    pub(super) chunk_size: usize,
    pub(super) randomize_chunk_sizes: bool,
    pub compat: Option<Compat>,
    /// What the user should know about what was asked for.
    pub notes: Vec<String>,
}

impl KvCacheSpec {
    /// `head_dims`: of keys and of values, in each of the model's layers.
    pub fn new(
        options: &KvCacheOptions,
        policies: &Policies,
        head_dims: &[[usize; 2]],
    ) -> Result<Self, PolicyError> {
        let (policy_name, buffers) = split_name(&options.name, policies)?;
        let [keys, values] = buffers.map(|(_, format)| format);
        let compat = options.compat.as_deref().map(Compat::named).transpose()?;
        let kept = policy_name == "lastrec" || policy_name == "streamingllm";
        if compat.is_some() && !kept && options.cache_kwargs.has("init_grace_tokens") {
            let what = format!("init_grace_tokens of {policy_name}");
            return Err(PolicyError::NotInCompat { what });
        }
        let defaults = compat.map_or(&[][..], Compat::defaults);
        let args = options.cache_kwargs.clone().with_defaults(defaults);
        let built = policies.build(policy_name, args);
        let spec = KvCacheSpec {
            policy_name,
            policy: built.expect("a name that was found")?,
            keys,
            values,
            cache_lengths: options.cache_length.clone(),
            chunk_size: options.chunk_size,
            randomize_chunk_sizes: options.randomize_chunk_sizes,
            compat,
            notes: buffers.iter().filter_map(|(name, format)| alias_note(name, *format)).collect(),
        };
        spec.check(head_dims)?;
        Ok(spec)
    }

    pub fn slots(&self, layer: usize) -> usize {
        let only = self.cache_lengths[0];
        self.cache_lengths.get(layer).copied().unwrap_or(only)
    }

    /// Slots of each layer, or of all.
    pub fn lengths(&self) -> &[usize] {
        &self.cache_lengths
    }

    /// The rule of a layer of `slots` slots, which can evict.
    pub fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let rule = self.policy.rule(slots)?;
        self.compat.map_or(rule.clone(), |compat| compat.rule(rule, slots)).checked(slots)
    }

    /// Lengths of the chunks of a prompt; after it each token is a chunk. `seed` is read where
    /// sizes are random.
    pub fn chunk_plan(&self, prompt_tokens: usize, seed: u64) -> Vec<usize> {
        chunk_plan(&self.cache_lengths, prompt_tokens, self.sizes(seed))
    }

    /// `{policy}-{buffer}`
    pub fn name(&self) -> String {
        let (policy, keys, values) = (self.policy_name, self.keys.name(), self.values.name());
        if keys == values {
            format!("{policy}-{keys}")
        } else {
            format!("{policy}-{keys}+{values}")
        }
    }

    fn sizes(&self, seed: u64) -> ChunkSizes {
        let random_seed = self.randomize_chunk_sizes.then_some(seed);
        ChunkSizes { tokens: self.chunk_size, random_seed }
    }

    fn check(&self, head_dims: &[[usize; 2]]) -> Result<(), PolicyError> {
        let (given, layers) = (self.cache_lengths.len(), head_dims.len());
        if given != 1 && given != layers {
            return Err(PolicyError::LayerCount { given, layers });
        }
        for length in &self.cache_lengths {
            countable("kv_cache.cache_length", *length)?;
        }
        countable("kv_cache.chunk_size", self.chunk_size)?;
        let formats = [self.keys, self.values];
        for (format, dim) in head_dims.iter().flat_map(|dims| formats.into_iter().zip(*dims)) {
            if format.quantiser().is_some_and(|quantiser| !quantiser.fits(dim)) {
                return Err(PolicyError::OddHead { buffer: format.name().into(), dim });
            }
        }
        self.cache_lengths.iter().try_for_each(|slots| self.check_layer(*slots))?;
        self.check_alike()
    }

    /// All layers evict, or none.
    fn check_alike(&self) -> Result<(), PolicyError> {
        let (mut keeping, mut evicting) = (None, None);
        for slots in &self.cache_lengths {
            let kind = if self.rule(*slots)? == Rule::Keep { &mut keeping } else { &mut evicting };
            *kind = Some(*slots);
        }
        match (keeping, evicting) {
            (Some(keeping), Some(evicting)) => {
                let policy = self.policy_name.to_owned();
                Err(PolicyError::MixedLayers { policy, keeping, evicting })
            }
            _ => Ok(()),
        }
    }

    fn check_layer(&self, slots: usize) -> Result<(), PolicyError> {
        let rule = self.rule(slots)?;
        let plain = [self.keys, self.values].iter().all(|format| *format == SlotFormat::Plain);
        if rule.wants_errors() && plain {
            let valid: Vec<&str> =
                SlotFormat::names().filter(|name| *name != SlotFormat::Plain.name()).collect();
            let policy = self.policy_name.to_owned();
            return Err(PolicyError::NeedsQuantiser { policy, valid: valid.join(", ") });
        }
        if let Rule::Recent(RecentRule { text_segment: Some(text_segment), .. }) = &rule
            && (!text_segment.is_prefix || text_segment.pad_token != 0)
            && self.compat.is_none()
        {
            let what = "range_is_prefix = false or a pad_id".to_owned();
            return Err(PolicyError::NeedsCompat { what });
        }
        if self.compat.is_some() && !Compat::knows(&rule) {
            let what = self.policy_name.to_owned();
            return Err(PolicyError::NotInCompat { what });
        }
        if rule == Rule::Keep {
            return Ok(());
        }
        let differ = self.cache_lengths.iter().any(|length| *length != self.cache_lengths[0]);
        let longest = self.sizes(0).longest() + if differ { EXTENSION_MOST } else { 0 };
        let most = rule.evictable(slots);
        if most < longest {
            let chunk_size = self.chunk_size;
            let limits = rule.chunk_limits().into_iter();
            let smaller: Vec<String> =
                ["kv_cache.chunk_size".into()].into_iter().chain(limits).collect();
            let smaller = smaller.join(" or ");
            return Err(PolicyError::ChunkSize { chunk_size, longest, most, slots, smaller });
        }
        Ok(())
    }
}

type NamedFormat<'a> = (&'a str, SlotFormat);

/// The longest policy that the name begins with, and the buffers of keys and of values.
fn split_name<'a>(
    name: &'a str,
    policies: &Policies,
) -> Result<(&'static str, [NamedFormat<'a>; 2]), PolicyError> {
    let rest_of = |policy: &'static str| Some((policy, name.strip_prefix(policy)?));
    let split = policies.names().filter_map(rest_of).filter_map(|(policy, rest)| {
        let (keys, values) = split_buffers(rest.strip_prefix('-')?);
        let format = |name: &'a str| Some((name, SlotFormat::named(name)?));
        Some((policy, [format(keys)?, format(values)?]))
    });
    split.max_by_key(|(policy, _)| policy.len()).ok_or_else(|| PolicyError::UnknownName {
        name: name.to_owned(),
        policies: policies.names().collect::<Vec<_>>().join(", "),
        buffers: SlotFormat::names().collect::<Vec<_>>().join(", "),
    })
}

fn split_buffers(buffers: &str) -> (&str, &str) {
    buffers.split_once('+').unwrap_or((buffers, buffers))
}

fn alias_note(name: &str, format: SlotFormat) -> Option<String> {
    let own = format.name();
    let exact = if format.quantiser() == Some(Quantiser::Asymmetric4) {
        ", whose quantised values it read back wrongly"
    } else {
        ""
    };
    (name != own).then(|| format!("{name} is stored as {own}: the same format{exact}"))
}

/// Devices count slots and tokens in 32 bits, with a sign.
fn countable(argument: &str, value: usize) -> Result<(), PolicyError> {
    if (1..=i32::MAX as usize).contains(&value) {
        return Ok(());
    }
    Err(PolicyError::BadArgument {
        argument: argument.to_owned(),
        value: value.to_string(),
        wanted: format!("1 or more, up to {}", i32::MAX),
    })
}
