//! Whether an answer is the same alone and in company.
//!
//! On the CPU it always is; on a GPU with `--deterministic`. A small decoder of random weights
//! answers many requests at once, and then some of them again, one by one and without their pages.

use anyhow::{Context, Result, bail};
use terrace_engine::{
    DeviceChoice, EngineHandle, EngineSetup, InferenceConfig, Precision, Priority, Request,
    SamplingParams, Shutdown, TokenEvent, TokenId, WeightSource,
};
use terrace_kernels::WeightFormat;
use terrace_kernels::conformance::Random;
use terrace_model::KnownShape;

const REQUESTS: usize = 64;
/// Those that are asked again.
const ALONE: [usize; 4] = [0, 17, 40, 63];
const NEW_TOKENS: usize = 24;
const LONGEST_PROMPT: usize = 200;
/// Enough for differences to grow, few enough for any machine.
const LAYERS: usize = 4;

pub fn check(device: DeviceChoice, threads: usize, seed: u64) -> Result<()> {
    let engine = start(device, threads)?;
    let mut random = Random::new(seed);
    let requests: Vec<Request> = (0..REQUESTS).map(|i| request(&mut random, i)).collect();
    let together = engine.submit_all(requests.clone())?;
    let together: Vec<Vec<TokenId>> = together.into_iter().map(ids).collect::<Result<_>>()?;
    let mut different = 0;
    for index in ALONE {
        // Under another salt nothing of the first run is found again.
        let again = Request { cache_salt: "alone".into(), ..requests[index].clone() };
        let alone = ids(engine.submit(again)?)?;
        let equal = alone.iter().zip(&together[index]).take_while(|(a, b)| a == b).count();
        if alone != together[index] {
            println!("request {index}: {equal} of {NEW_TOKENS} ids before the first other one");
            different += 1;
        }
    }
    engine.shutdown(Shutdown::Now);
    if different > 0 {
        bail!("{different} of {} answers differ alone and among {REQUESTS}", ALONE.len());
    }
    println!(
        "\n{} answers of {NEW_TOKENS} ids are the same alone and among {REQUESTS}",
        ALONE.len()
    );
    Ok(())
}

fn start(device: DeviceChoice, threads: usize) -> Result<EngineHandle> {
    let mut spec = KnownShape::find("smollm2-135m").context("a known shape")?.spec();
    spec.layers.truncate(LAYERS);
    let config = InferenceConfig {
        device,
        deterministic: true,
        dtype: Precision::Bf16,
        threads: Some(threads),
        max_batch_size: REQUESTS,
        max_input_len: LONGEST_PROMPT,
        max_output_len: NEW_TOKENS,
        max_step_tokens: 512,
        ..InferenceConfig::default()
    };
    let weights = WeightSource::Random(WeightFormat::Bf16);
    let setup = EngineSetup::new("selftest", spec, weights, &config, || {})?;
    Ok(EngineHandle::spawn(setup.engine))
}

/// Every second one draws its tokens.
fn request(random: &mut Random, index: usize) -> Request {
    let prompt = (0..1 + random.below(LONGEST_PROMPT)).map(|_| random.below(49_152) as TokenId);
    let greedy = SamplingParams::greedy(NEW_TOKENS);
    let drawn =
        SamplingParams { do_sample: true, top_p: 0.9, seed: index as u64, ..greedy.clone() };
    Request {
        prompt: prompt.collect(),
        sampling: if index.is_multiple_of(2) { greedy } else { drawn },
        priority: Priority::default(),
        cache_salt: String::new(),
        cache: None,
    }
}

fn ids(mut answer: terrace_engine::TokenReceiver) -> Result<Vec<TokenId>> {
    let mut ids = Vec::new();
    while let Some(event) = answer.blocking_recv() {
        if let TokenEvent::Token { id, .. } = event {
            ids.push(id);
        }
    }
    if ids.len() != NEW_TOKENS {
        bail!("an answer has {} of {NEW_TOKENS} tokens; the log above says why", ids.len());
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_the_cpu_company_does_not_matter() {
        check(DeviceChoice::Cpu, 2, 1).unwrap();
    }
}
