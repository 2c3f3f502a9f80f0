//! Whether an output is the same alone and in a batch.
//!
//! On the CPU it always is; on a GPU with `--deterministic`. A small decoder of random weights
//! runs many requests at once, and then some of them again, one by one and without their pages.
//! Their caches are of several kinds; those that evict must keep the same slots too. Then some run
//! beside others that grow, with too few pages for all, so that they are swapped out and in.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use terrace_cache::policy::ReplayLog;
use terrace_engine::{
    CacheMaker, DeviceChoice, EngineHandle, EngineSetup, InferenceConfig, KvTiers, Lengths,
    Precision, Priority, Request, RequestRetention, RequestedKvCache, SamplingParams, Shutdown,
    Task, TokenEvent, TokenId, TokenReceiver, WeightSource,
};
use terrace_kernels::WeightFormat;
use terrace_kernels::random::SplitMix;
use terrace_model::KnownShape;

const REQUESTS: usize = 64;
/// Those that are sent again: one of each cache, and one more of the engine's own.
const ALONE: [usize; 5] = [0, 17, 33, 42, 63];
/// Of every fourth request.
const CACHES: [&str; 4] =
    ["dense-default", OWN_CACHE, "h2o-vlen-bnb-quantized4", "streamingllm-default"];
/// Of the engine itself, and so part of its captured steps.
const OWN_CACHE: &str = "h2o-torch-quantized8";
/// So that prompts and outputs evict.
const CACHE_LENGTH: usize = 48;
const NEW_TOKENS: usize = 24;
const LONGEST_PROMPT: usize = 200;
/// Enough for differences to grow, few enough for any machine.
const LAYERS: usize = 4;
/// Requests that take the pages of others.
const GROWING: usize = 12;
const SWAPPED: usize = 18;
/// Pages for those that grow, not for the others beside them, and as many in the host's memory.
const TIGHT_BYTES: usize = 2 << 20;
const VOCAB: usize = 49_152;

/// What came of a request.
#[derive(PartialEq)]
struct Output {
    ids: Vec<TokenId>,
    /// Where its tokens were kept; `None` of a dense cache.
    kept: Option<Box<ReplayLog>>,
}

/// On a GPU in the model's type `dtype`.
pub fn check(device: DeviceChoice, dtype: Precision, threads: usize, seed: u64) -> Result<()> {
    let config = InferenceConfig { device, dtype, threads: Some(threads), ..config() };
    let (engine, caches) = start(&config)?;
    let mut random = SplitMix::new(seed);
    let requests = (0..REQUESTS).map(|index| request(&mut random, &caches, index));
    let requests: Vec<Request> = requests.collect::<Result<_>>()?;
    let together = engine.submit_all(requests.clone())?;
    let together: Vec<Output> = together.into_iter().map(output).collect::<Result<_>>()?;
    let mut different = 0;
    for index in ALONE {
        // Under another salt nothing of the first run is found again.
        let again = Request { cache_salt: "alone".into(), ..requests[index].clone() };
        let (alone, together) = (output(engine.submit(again)?)?, &together[index]);
        let equal = alone.ids.iter().zip(&together.ids).take_while(|(a, b)| a == b).count();
        if alone != *together {
            let kept = if alone.kept == together.kept { "the same" } else { "other" };
            let cache = CACHES[index % CACHES.len()];
            println!(
                "request {index}, {cache}: {equal} of {NEW_TOKENS} ids before the first other one, \
                 {kept} slots"
            );
            different += 1;
        }
    }
    if different > 0 {
        bail!("{different} of {} outputs differ alone and among {REQUESTS}", ALONE.len());
    }
    println!(
        "\n{} outputs of {NEW_TOKENS} ids in {dtype:?}, and the slots of their caches, are the \
         same alone and among {REQUESTS}",
        ALONE.len()
    );
    let mut requests = Vec::new();
    for index in 0..GROWING + SWAPPED {
        requests.push(swapped_request(&mut random, &caches, index)?);
    }
    let wanted = engine.submit_all(requests.clone())?;
    let wanted: Vec<Output> = wanted.into_iter().map(output).collect::<Result<_>>()?;
    engine.shutdown(Shutdown::Drain);
    check_swapped(&config, &requests, &wanted)
}

/// Whether those that evict come out the same when some of them are swapped out and in.
fn check_swapped(config: &InferenceConfig, requests: &[Request], wanted: &[Output]) -> Result<()> {
    let tight = Some(TIGHT_BYTES);
    let (engine, _) = start(&InferenceConfig {
        kv_memory_bytes: tight,
        kv_tiers: KvTiers { host_bytes: tight, ..KvTiers::default() },
        ..config.clone()
    })?;
    let found = engine.submit_all(requests.to_vec())?;
    let found: Vec<Output> = found.into_iter().map(output).collect::<Result<_>>()?;
    let stats = engine.stats();
    if stats.swaps_out == 0 || stats.swaps_in == 0 {
        bail!("nothing was swapped out in a pool of {} pages", stats.pages_total);
    }
    let pairs = found.iter().zip(wanted).skip(GROWING);
    let different = pairs.filter(|(found, wanted)| found != wanted).count();
    if different > 0 {
        bail!("{different} outputs differ when {} are swapped out", stats.swaps_out);
    }
    println!("so they are when {} of them are swapped out and in", stats.swaps_out);
    Ok(())
}

/// The first ones keep all, go first, and grow; the others evict, and make way for them.
fn swapped_request(random: &mut SplitMix, caches: &CacheMaker, index: usize) -> Result<Request> {
    let (index, tokens, priority) = match index.checked_sub(GROWING) {
        None => (0, 10, Priority(1)),
        Some(evicting) => (1 + evicting % (CACHES.len() - 1), 150, Priority(0)),
    };
    let request = request(random, caches, index)?;
    let prompt: Vec<TokenId> = (0..tokens).map(|_| random.below(VOCAB) as TokenId).collect();
    let cache = match index {
        0 => None,
        _ => caches.make(&requested(CACHES[index]), &prompt, None, 0)?,
    };
    Ok(Request { prompt, priority, cache, ..request })
}

fn config() -> InferenceConfig {
    InferenceConfig {
        deterministic: true,
        max_batch_size: REQUESTS,
        max_input_len: LONGEST_PROMPT,
        max_output_len: NEW_TOKENS,
        max_step_tokens: 512,
        kv_cache: requested(OWN_CACHE),
        ..InferenceConfig::default()
    }
}

fn start(config: &InferenceConfig) -> Result<(EngineHandle, Arc<CacheMaker>)> {
    let mut spec = KnownShape::find("smollm2-135m").context("a known shape")?.spec();
    spec.layers.truncate(LAYERS);
    let weights = WeightSource::Random(WeightFormat::Bf16);
    let setup = EngineSetup::new(spec, weights, config, || {})?;
    Ok((EngineHandle::spawn(setup.engine), setup.caches))
}

fn requested(name: &str) -> RequestedKvCache {
    RequestedKvCache {
        name: Some(name.into()),
        cache_length: Some(Lengths::One(CACHE_LENGTH)),
        chunk_size: Some(CACHE_LENGTH / 3),
        replay_log: Some(true),
        ..RequestedKvCache::default()
    }
}

/// Every third one draws its tokens.
fn request(random: &mut SplitMix, caches: &CacheMaker, index: usize) -> Result<Request> {
    let prompt = (0..1 + random.below(LONGEST_PROMPT)).map(|_| random.below(VOCAB) as TokenId);
    let prompt: Vec<TokenId> = prompt.collect();
    let greedy = SamplingParams::greedy(NEW_TOKENS);
    let drawn =
        SamplingParams { do_sample: true, top_p: 0.9, seed: index as u64, ..greedy.clone() };
    let mut requested = requested(CACHES[index % CACHES.len()]);
    if index.is_multiple_of(CACHES.len()) {
        requested.cache_length = Some(Lengths::One(LONGEST_PROMPT + NEW_TOKENS));
    }
    Ok(Request {
        task: Task::Generate(if index.is_multiple_of(3) { drawn } else { greedy }),
        priority: Priority::default(),
        cache_salt: String::new(),
        retention: RequestRetention::default(),
        cache: caches.make(&requested, &prompt, None, index as u64)?,
        prompt,
    })
}

fn output(mut events: TokenReceiver) -> Result<Output> {
    let mut output = Output { ids: Vec::new(), kept: None };
    while let Some(event) = events.blocking_recv() {
        match event {
            TokenEvent::Token { id, .. } => output.ids.push(id),
            TokenEvent::Replay { log, .. } => output.kept = Some(log),
            _ => {}
        }
    }
    if output.ids.len() != NEW_TOKENS {
        bail!("an output has {} of {NEW_TOKENS} tokens; the log above says why", output.ids.len());
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_the_cpu_batch_mates_do_not_matter() {
        check(DeviceChoice::Cpu, Precision::Bf16, 2, 1).unwrap();
    }
}
