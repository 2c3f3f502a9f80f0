//! What requests of a simulation have left, and which tokens it holds.

use std::collections::BTreeMap;

use terrace_engine::{
    Engine, Failure, FinishReason, KvHandle, Request, RequestId, TokenEvent, TokenId,
};
use terrace_testkit::Rng;

#[derive(Default)]
pub struct KeptRequests {
    live: BTreeMap<RequestId, Past>,
    /// Handles of requests that still run.
    expected: BTreeMap<RequestId, KvHandle>,
    kept: BTreeMap<KvHandle, Past>,
}

/// A request, and its tokens so far.
#[derive(Clone)]
pub struct Past {
    pub request: Request,
    pub tokens: Vec<TokenId>,
}

impl KeptRequests {
    pub fn submitted(&mut self, id: RequestId, request: &Request) {
        let past = Past { request: request.clone(), tokens: request.prompt.clone() };
        self.live.insert(id, past);
    }

    pub fn keep(&mut self, id: RequestId, engine: &mut Engine) {
        // The first output may have ended before the others.
        let Some(past) = self.live.get(&id) else { return };
        match engine.keep(id) {
            Ok(handle) => {
                self.expected.insert(id, handle);
                let early = engine.continue_from(handle, random_next(&past.request));
                assert!(early.is_err(), "it has not ended");
            }
            Err(_) => assert!(1 < past.request.choices(), "one output can be kept"),
        }
    }

    pub fn event(&mut self, id: RequestId, event: &TokenEvent) {
        match event {
            TokenEvent::Token { id: token, choice: 0, .. } => {
                self.live.get_mut(&id).expect("it is live").tokens.push(*token);
            }
            TokenEvent::Finished { choice: 0, reason } => {
                let past = self.live.remove(&id).expect("it is live");
                let has_failed = *reason == FinishReason::Failed(Failure::Step);
                let handle = self.expected.remove(&id).filter(|_| !has_failed);
                self.kept.extend(handle.map(|handle| (handle, past)));
            }
            _ => {}
        }
    }

    /// One of those that are kept.
    pub fn draw(&self, rng: &mut Rng) -> Option<(KvHandle, Past)> {
        let kept: Vec<_> = self.kept.iter().collect();
        if kept.is_empty() {
            return None;
        }
        let (handle, past) = *rng.pick(&kept);
        Some((*handle, past.clone()))
    }

    pub fn release(&mut self, handle: KvHandle, engine: &mut Engine) {
        let past = self.kept.remove(&handle).expect("it is kept");
        engine.release(handle);
        assert!(engine.continue_from(handle, random_next(&past.request)).is_err(), "it is gone");
    }

    pub fn release_all(&mut self, engine: &mut Engine) {
        for handle in self.kept.keys().copied().collect::<Vec<_>>() {
            self.release(handle, engine);
        }
    }
}

fn random_next(request: &Request) -> Request {
    Request { prompt: vec![0], cache: None, ..request.clone() }
}
