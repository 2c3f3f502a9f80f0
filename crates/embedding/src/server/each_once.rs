//! Shared things, each once.

use std::sync::Arc;

/// In the order in which they first come.
pub fn each_once<'a, T: 'a>(all: impl Iterator<Item = &'a Arc<T>>) -> Vec<&'a Arc<T>> {
    let mut once: Vec<&Arc<T>> = Vec::new();
    for one in all {
        if !once.iter().any(|other| Arc::ptr_eq(other, one)) {
            once.push(one);
        }
    }
    once
}
