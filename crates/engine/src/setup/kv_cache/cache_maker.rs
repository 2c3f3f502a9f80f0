//! Makes a sequence's cache of what its user asked, within what the server has.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use terrace_cache::policy::{
    KvCacheSpec, Opening, Policies, PolicyError, Rule, SlotFormat, SlotShape, TokenText,
};
use terrace_cache::{KvGroup, TokenId};
use terrace_kernels::{KvLayout, SlotLayout};

use super::RequestedKvCache;
use crate::error::Error;
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_policy::{GroupRule, SeqPolicy};

pub struct CacheMaker {
    config: CacheMakerConfig,
    policies: Policies,
}

/// What caches are made for.
#[derive(Clone, Debug)]
pub struct CacheMakerConfig {
    /// What each of the model's layers stores.
    pub layers: Vec<SlotShape>,
    /// Bytes of a page of the pool.
    pub page_bytes: usize,
    /// The cache of requests that ask for none.
    pub requested: RequestedKvCache,
    /// Most tokens of a sequence.
    pub context_tokens: usize,
    /// Most tokens that a policy may want computed together.
    pub chunk_tokens_max: usize,
    /// Most slots of a cache with scores.
    pub scored_slots_max: usize,
    /// Whether the device runs scores that policies bring along: they are code of the host.
    pub runs_own_scores: bool,
}

/// Slots and tokens of a chunk where nobody says.
const CACHE_LENGTH: usize = 16_384;
const CHUNK_SIZE: usize = 1024;

impl CacheMaker {
    pub fn new(config: CacheMakerConfig, policies: Policies) -> Result<Self, Error> {
        let maker = CacheMaker { config, policies };
        for note in maker.spec(&RequestedKvCache::default())?.notes {
            tracing::info!("{note}");
        }
        Ok(maker)
    }

    /// The cache of one sequence; `None` keeps every key and value as it is. `text` reads the
    /// prompt for policies that look into it, and `seed` draws chunk sizes where these are random.
    pub fn make(
        &self,
        requested: &RequestedKvCache,
        prompt: &[TokenId],
        text: Option<&dyn TokenText>,
        seed: u64,
    ) -> Result<Option<Arc<SeqCache>>, Error> {
        let requested = requested.or(&self.config.requested);
        let spec = self.spec_of(&requested)?;
        let ends = spec.chunk_plan(prompt.len(), seed).into_iter().scan(0, |end, tokens| {
            *end += tokens;
            Some(*end)
        });
        self.made(&requested, &spec, prompt, text, ends.collect())
    }

    /// The cache of a sequence once more, of its [`options`](SeqCache::options): with the chunks
    /// that its prompt was computed in. All of it may be untrusted.
    pub fn remake(
        &self,
        options: &Value,
        tokens: &[TokenId],
        text: Option<&dyn TokenText>,
        chunk_ends: Vec<usize>,
    ) -> Result<Option<Arc<SeqCache>>, Error> {
        let requested = RequestedKvCache::deserialize(options).map_err(|error| {
            let rule = format!("it is not what a request may ask for: {error}");
            Error::BadOption { option: "kv_cache", value: options.to_string(), rule }
        })?;
        let spec = self.spec_of(&requested)?;
        if chunk_ends.last().is_some_and(|end| tokens.len() < *end) {
            return Err(bad_chunks(format!("they end behind the {} tokens", tokens.len())));
        }
        let made = self.made(&requested, &spec, tokens, text, chunk_ends)?;
        if let Some(policy) = made.as_ref().and_then(|made| made.policy.as_ref()) {
            self.check_chunks(policy)?;
        }
        Ok(made)
    }

    /// `requested` is complete, and `spec` was made of it.
    fn made(
        &self,
        requested: &RequestedKvCache,
        spec: &KvCacheSpec,
        prompt: &[TokenId],
        text: Option<&dyn TokenText>,
        chunk_ends: Vec<usize>,
    ) -> Result<Option<Arc<SeqCache>>, Error> {
        let groups = self.groups(spec)?;
        let options = Some(requested.complete(spec.lengths()));
        if spec.rule(spec.slots(0))? == Rule::Keep {
            let is_plain = [spec.keys, spec.values] == [SlotFormat::Plain; 2];
            let whole = SeqCache { options, ..SeqCache::whole(groups) };
            return Ok((!is_plain).then(|| Arc::new(whole)));
        }
        let first_chunk = chunk_ends.first().copied().unwrap_or(0);
        let opening = Opening { tokens: &prompt[..first_chunk], text };
        let rule = |group: &KvGroup| {
            let slots = spec.slots(group.layers[0]);
            let rule = spec.rule(slots)?.for_sequence(&opening)?.checked(slots)?;
            let scorer = rule.scorer(&spec.policy);
            Ok(GroupRule { slots, rule, scorer })
        };
        let rules = groups.iter().map(rule).collect::<Result<_, PolicyError>>()?;
        let keeps_log = requested.replay_log.unwrap_or(false);
        let policy = Some(SeqPolicy { rules, chunk_ends, keeps_log });
        Ok(Some(Arc::new(SeqCache { groups, policy, options })))
    }

    /// Whether the rules can be followed in these chunks.
    fn check_chunks(&self, policy: &SeqPolicy) -> Result<(), Error> {
        let Some(first_chunk) = policy.chunk_ends.first().copied() else {
            return Err(bad_chunks("there are none".into()));
        };
        let most = self.config.chunk_tokens_max;
        if most < policy.longest_whole_chunk() {
            let longest = policy.longest_whole_chunk();
            return Err(Error::ChunkTooLong { longest, limit: most });
        }
        let mut start = 0;
        for end in &policy.chunk_ends {
            for GroupRule { slots, rule, .. } in &policy.rules {
                rule.slot_rule(*slots, start, end.saturating_sub(start), first_chunk)?;
            }
            start = *end;
        }
        Ok(())
    }

    /// Most tokens of a sequence with this cache: its `cache_length`, where one is given and
    /// nothing is evicted.
    pub fn max_tokens(&self, requested: &RequestedKvCache) -> Result<Option<usize>, Error> {
        if requested.or(&self.config.requested).cache_length.is_none() {
            return Ok(None);
        }
        let spec = self.spec(requested)?;
        let keeps = spec.rule(spec.slots(0))? == Rule::Keep;
        Ok(spec.lengths().iter().min().copied().filter(|_| keeps))
    }

    /// The groups of the server's own cache, with the slots that a sequence fills at most in each;
    /// `None` where every key and value is kept as it is.
    pub fn default_groups(&self) -> Result<Option<Vec<(KvGroup, usize)>>, Error> {
        let spec = self.spec(&RequestedKvCache::default())?;
        let keeps = spec.rule(spec.slots(0))? == Rule::Keep;
        if keeps && [spec.keys, spec.values] == [SlotFormat::Plain; 2] {
            return Ok(None);
        }
        let context = self.config.context_tokens;
        let slots = |group: KvGroup| {
            let slots = if keeps { context } else { spec.slots(group.layers[0]).min(context) };
            (group, slots)
        };
        Ok(Some(self.groups(&spec)?.into_iter().map(slots).collect()))
    }

    /// Whether protected keys of the server's own cache are re-rotated as others leave.
    pub fn default_rerotates_keys(&self) -> Result<bool, Error> {
        let spec = self.spec(&RequestedKvCache::default())?;
        Ok(spec.rule(spec.slots(0))?.rerotates_keys())
    }

    /// Whether the server's own cache evicts.
    pub fn default_evicts(&self) -> Result<bool, Error> {
        let spec = self.spec(&RequestedKvCache::default())?;
        Ok(spec.rule(spec.slots(0))? != Rule::Keep)
    }

    fn spec(&self, requested: &RequestedKvCache) -> Result<KvCacheSpec, Error> {
        self.spec_of(&requested.or(&self.config.requested))
    }

    /// Of what is complete.
    fn spec_of(&self, requested: &RequestedKvCache) -> Result<KvCacheSpec, Error> {
        let config = &self.config;
        let head_dims: Vec<_> =
            config.layers.iter().map(|shape| [shape.key_dim, shape.value_dim]).collect();
        let lengths = CACHE_LENGTH.min(config.context_tokens);
        let most = CHUNK_SIZE.min(config.chunk_tokens_max);
        let spec = requested.spec(lengths, most, &self.policies, &head_dims)?;
        self.check_scores(&spec)?;
        Ok(spec)
    }

    /// Scores need memory for a row's weights, and one of the policy's own a device that runs it.
    fn check_scores(&self, spec: &KvCacheSpec) -> Result<(), PolicyError> {
        for slots in spec.lengths() {
            let rule = spec.rule(*slots)?;
            if rule.has_own_score() && !self.config.runs_own_scores {
                return Err(PolicyError::HostOnly { policy: spec.policy_name.to_owned() });
            }
            let most = self.config.scored_slots_max;
            if rule.wants_weights() && most < (*slots).min(self.config.context_tokens) {
                return Err(PolicyError::BadArgument {
                    argument: "kv_cache.cache_length".into(),
                    value: slots.to_string(),
                    wanted: format!("{most} at most where a policy keeps scores"),
                });
            }
        }
        Ok(())
    }

    /// Layers of the same length and shape are a group.
    fn groups(&self, spec: &KvCacheSpec) -> Result<Vec<KvGroup>, Error> {
        let mut alike: Vec<((usize, &SlotShape), Vec<usize>)> = Vec::new();
        for (layer, shape) in self.config.layers.iter().enumerate() {
            let kind = (spec.slots(layer), shape);
            match alike.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, layers)) => layers.push(layer),
                None => alike.push((kind, vec![layer])),
            }
        }
        let group = |((slots, shape), layers): ((usize, &SlotShape), Vec<usize>)| {
            let layout = spec.slot_layout(slots, layers.len(), shape)?;
            let layout = self.fitting(layout)?;
            Ok(KvGroup { layers, layout: KvLayout::Slots(layout), window: None })
        };
        alike.into_iter().map(group).collect()
    }

    fn fitting(&self, layout: SlotLayout) -> Result<SlotLayout, Error> {
        let page_bytes = self.config.page_bytes;
        let slot_bytes = layout.page_bytes();
        layout.fitting(page_bytes).ok_or(Error::SlotTooLarge { slot_bytes, page_bytes })
    }
}

fn bad_chunks(why: String) -> Error {
    let rule = "make the handle again, with a server of this version".into();
    Error::BadOption { option: "chunks of the prompt", value: why, rule }
}
