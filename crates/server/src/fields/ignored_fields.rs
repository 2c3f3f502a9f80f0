//! The fields of a request that nobody knew, where they are ignored instead of refused.

use std::sync::Mutex;

use axum::http::HeaderValue;

/// Names that a header may list.
const MAX_SHOWN: usize = 32;

#[derive(Default)]
pub struct IgnoredFields {
    names: Mutex<Vec<String>>,
}

impl IgnoredFields {
    pub fn extend(&self, names: impl Iterator<Item = String>) {
        self.names.lock().expect("no panics while it is held").extend(names);
    }

    /// The first names as a header says them, as visible ASCII; `None` if there are none.
    pub fn header_value(&self) -> Option<HeaderValue> {
        let names = self.names.lock().expect("no panics while it is held");
        let shown = names.iter().take(MAX_SHOWN);
        let shown: Vec<_> = shown.map(|name| name.escape_default().to_string()).collect();
        (!shown.is_empty()).then(|| HeaderValue::from_str(&shown.join(", ")).ok()).flatten()
    }
}
