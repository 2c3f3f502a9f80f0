//! One file for each subcommand: its arguments and what it does with them.

pub mod bench;
pub mod chat;
pub mod generate;
pub mod pull;
pub mod selftest;
pub mod serve;

use terrace_engine::Priority;
use terrace_engine::text::{GenerationConfig, Prompt, TextRequest};

/// A request of this process's own user: ordinary rank, greedy where nobody says otherwise.
fn request(prompt: Prompt, generation: GenerationConfig) -> TextRequest {
    TextRequest {
        prompt,
        generation,
        defaults: GenerationConfig::seed_defaults(),
        priority: Priority::default(),
        cache_salt: String::new(),
        processors: Vec::new(),
    }
}
