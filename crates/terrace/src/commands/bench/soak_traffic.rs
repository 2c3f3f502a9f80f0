//! Requests of all kinds, from a seed.

use serde_json::{Map, Value, json};

use super::random_prompts::RandomPrompts;

/// What one client asks for, one request after the other.
pub struct MixedTraffic {
    random: RandomPrompts,
    limits: TrafficLimits,
    /// How some prompts begin, the same for every client.
    shared: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
pub struct TrafficLimits {
    pub prompt_tokens: usize,
    pub new_tokens: usize,
    pub choices: usize,
    pub vocab: usize,
}

/// Slots of a cache that can evict.
const SHORTEST_CACHE: usize = 8;

/// A request, and when its client leaves.
#[derive(Debug, PartialEq)]
pub struct Errand {
    pub body: Value,
    /// After so many events.
    pub leave_after: Option<usize>,
}

impl MixedTraffic {
    /// Clients of one seed share the beginnings of prompts and nothing else.
    pub fn new(seed: u64, client: usize, limits: TrafficLimits) -> Self {
        let shared = RandomPrompts::new(seed, limits.vocab).next(limits.prompt_tokens);
        let own_seed = (seed << 20) ^ (client as u64 + 1);
        MixedTraffic { random: RandomPrompts::new(own_seed, limits.vocab), limits, shared }
    }

    pub fn next(&mut self) -> Errand {
        let TrafficLimits { prompt_tokens, new_tokens, choices, .. } = self.limits;
        let random = &mut self.random;
        let length = 1 + random.below(prompt_tokens);
        let mut prompt = random.next(length);
        if random.below(3) == 0 {
            let shared = 1 + random.below(prompt.len());
            prompt[..shared].copy_from_slice(&self.shared[..shared]);
        }
        let max_tokens = 1 + random.below(new_tokens);
        let leave_after = (random.below(3) == 0).then(|| random.below(max_tokens));
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| body.insert(name.into(), value);
        set("prompt", json!(prompt));
        set("max_tokens", json!(max_tokens));
        set("stream", json!(true));
        set("stream_options", json!({"include_usage": true}));
        set("ignore_eos", json!(random.below(2) == 0));
        if random.below(2) == 0 {
            set("temperature", json!(0));
        } else {
            set("temperature", json!(0.8));
            set("top_p", json!(0.9));
            set("seed", json!(random.below(1000)));
        }
        if random.below(4) == 0 {
            set("logprobs", json!(1 + random.below(5)));
        }
        if random.below(4) == 0 {
            set("repetition_penalty", json!(1.1));
            set("frequency_penalty", json!(0.5));
            set("presence_penalty", json!(-0.5));
        }
        if random.below(3) == 0 {
            set("kv_cache", cache(random, prompt_tokens));
        }
        if random.below(4) == 0 {
            set("n", json!(1 + random.below(choices)));
        }
        Errand { body: Value::Object(body), leave_after }
    }
}

/// A cache of any kind, shorter than the longest prompts.
fn cache(random: &mut RandomPrompts, prompt_tokens: usize) -> Value {
    let policies = ["dense", "lastrec", "streamingllm", "h2o", "h2o-vlen", "h2o-orig"];
    let buffers = ["default", "torch-quantized8", "torch-quantized4", "bnb-quantized8", "fp8"];
    let policy = policies[random.below(policies.len())];
    let name = format!("{policy}-{}", buffers[random.below(buffers.len())]);
    if policy == "dense" {
        return json!({ "name": name });
    }
    let length = SHORTEST_CACHE + random.below(prompt_tokens);
    let chunk = 1 + random.below(length / 4);
    json!({ "name": name, "cache_length": length, "chunk_size": chunk })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TrafficLimits =
        TrafficLimits { prompt_tokens: 30, new_tokens: 20, choices: 4, vocab: 50 };

    fn errands(seed: u64, client: usize) -> Vec<Errand> {
        let mut traffic = MixedTraffic::new(seed, client, LIMITS);
        (0..300).map(|_| traffic.next()).collect()
    }

    #[test]
    fn all_kinds_come_and_none_is_out_of_bounds() {
        let errands = errands(1, 0);
        let with = |name| errands.iter().filter(|errand| errand.body.get(name).is_some()).count();
        for option in ["logprobs", "frequency_penalty", "n", "seed", "kv_cache"] {
            assert!((40..200).contains(&with(option)), "{option}: {} of 300", with(option));
        }
        let left = errands.iter().filter(|errand| errand.leave_after.is_some()).count();
        assert!((70..130).contains(&left), "{left} of 300 leave");
        for errand in &errands {
            let prompt = errand.body["prompt"].as_array().expect("token ids");
            let max_tokens = errand.body["max_tokens"].as_u64().expect("a number");
            assert!((1..=30).contains(&prompt.len()) && (1..=20).contains(&max_tokens));
            assert!(prompt.iter().all(|id| id.as_u64().is_some_and(|id| id < 50)));
            assert!(errand.body.get("n").is_none_or(|n| (1..=4).contains(&n.as_u64().unwrap())));
        }
    }

    #[test]
    fn a_seed_gives_one_traffic_and_each_client_its_own() {
        assert_eq!(errands(1, 0), errands(1, 0));
        assert_ne!(errands(1, 0), errands(1, 1));
        assert_ne!(errands(1, 0), errands(2, 0));
    }
}
