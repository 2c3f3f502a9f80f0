//! What a call of a method brings along beside its message.

use std::sync::Arc;

use tonic::Extensions;

use crate::app_state::AppState;
use crate::middleware::{Caller, RequestLog};

#[derive(Clone)]
pub struct Call {
    pub log: Arc<RequestLog>,
    /// Whose it is what the request leaves behind.
    pub tenant: String,
}

impl Call {
    pub fn new(extensions: &Extensions, state: &AppState) -> Self {
        let log = extensions.get::<Arc<RequestLog>>();
        let log = Arc::clone(log.expect("every request has a log before it reaches a method"));
        let caller = extensions.get::<Caller>().copied();
        let caller = caller.expect("every request that passes has one");
        let tenant = caller.owner(&state.config.api_keys).unwrap_or_default();
        Self { log, tenant }
    }
}
