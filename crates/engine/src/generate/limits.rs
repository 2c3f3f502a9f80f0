//! What an engine can never serve, refused before a request waits in vain.
//!
//! A pure function of the configuration, so that any thread may ask without waiting for the
//! engine.

use terrace_cache::placement::Retention;

use crate::error::Error;
use crate::generate::engine_config::EngineConfig;
use crate::generate::request::{Request, Task};
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_policy::SeqPolicy;

/// Priorities further from 0 are refused: with them, aging would take longer than anyone waits.
pub(crate) const MAX_PRIORITY: i32 = 100;

pub(crate) struct Limits {
    vocab: usize,
    context_tokens: usize,
    max_input_len: usize,
    max_seqs: usize,
    max_waiting: usize,
    max_step_tokens: usize,
    pages: usize,
    /// Of requests that keep every key and value as it is.
    dense: SeqCache,
    gives_embeddings: bool,
}

impl Limits {
    pub(crate) fn new(config: &EngineConfig, gives_embeddings: bool) -> Self {
        Limits {
            vocab: config.vocab,
            context_tokens: config.context_tokens,
            max_input_len: config.max_input_len,
            max_seqs: config.scheduler.max_seqs,
            max_waiting: config.scheduler.max_waiting,
            max_step_tokens: config.scheduler.max_step_tokens,
            pages: config.pages,
            dense: SeqCache::whole(config.kv_groups.clone()),
            gives_embeddings,
        }
    }

    /// Whether the request could be served by an engine that has nothing else to do.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Error> {
        self.check_prompt(request)?;
        self.check_options(request)?;
        self.check_room(request)
    }

    /// Whether one more request may wait.
    pub(crate) fn check_queue(&self, waiting: usize) -> Result<(), Error> {
        if self.max_waiting <= waiting {
            return Err(Error::QueueFull { waiting, limit: self.max_waiting });
        }
        Ok(())
    }

    fn check_prompt(&self, request: &Request) -> Result<(), Error> {
        let tokens = request.prompt.len();
        if tokens == 0 {
            return Err(Error::EmptyPrompt);
        }
        if self.max_input_len < tokens {
            return Err(Error::PromptTooLong { tokens, limit: self.max_input_len });
        }
        match request.prompt.iter().find(|&&id| self.vocab <= id as usize) {
            Some(&id) => Err(Error::UnknownToken { id, vocab: self.vocab }),
            None => Ok(()),
        }
    }

    fn check_options(&self, request: &Request) -> Result<(), Error> {
        let choices = request.choices();
        if choices == 0 || self.max_seqs < choices {
            return Err(Error::BadOption {
                option: "n",
                value: choices.to_string(),
                rule: "it must be at least 1 and at most the server's max_batch_size".into(),
            });
        }
        if matches!(request.task, Task::Embed) && !self.gives_embeddings {
            return Err(Error::NoEmbeddings);
        }
        let priority = request.priority.0;
        if !(-MAX_PRIORITY..=MAX_PRIORITY).contains(&priority) {
            return Err(Error::BadOption {
                option: "priority",
                value: priority.to_string(),
                rule: "it must be from -100 to 100".into(),
            });
        }
        let retention = request.retention.priority;
        if Retention::MAX_PRIORITY < retention {
            return Err(Error::BadOption {
                option: "kv_cache.priority",
                value: retention.to_string(),
                rule: "it must be from 0 to 100".into(),
            });
        }
        Ok(())
    }

    /// One output must fit alone, in the model's context and in the pages.
    fn check_room(&self, request: &Request) -> Result<(), Error> {
        let (prompt, new) = (request.prompt.len(), request.max_new_tokens());
        let tokens = request.most_tokens();
        if self.context_tokens < tokens {
            return Err(Error::ContextTooLong { tokens, prompt, new, limit: self.context_tokens });
        }
        let cache = request.cache.as_deref().unwrap_or(&self.dense);
        let wanted = cache.most_pages(tokens, self.max_step_tokens);
        if self.pages < wanted {
            let page_tokens = cache.groups[0].page_tokens();
            return Err(Error::NeverFits { wanted, pages: self.pages, page_tokens });
        }
        // Beside it every other sequence may have a row in the step.
        let longest = cache.policy.as_ref().map_or(1, SeqPolicy::longest_whole_chunk);
        let limit = self.max_step_tokens.saturating_sub(self.max_seqs).max(1);
        if limit < longest {
            return Err(Error::ChunkTooLong { longest, limit });
        }
        Ok(())
    }
}
