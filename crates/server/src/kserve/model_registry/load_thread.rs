//! A thread of low priority, for loading.

use std::thread;

use tokio::sync::oneshot;

/// Runs blocking work at the lowest priority that the system has.
pub async fn at_low_priority<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (done, result) = oneshot::channel();
    let body = move || {
        lower_priority();
        // Whoever asked may have gone.
        let _ = done.send(work());
    };
    let thread = thread::Builder::new().name("terrace-loading".to_owned()).spawn(body);
    thread.map_err(|error| format!("no thread can be started to load a model: {error}"))?;
    let failed = |_| "loading has failed in the middle; the server's log says why".to_owned();
    result.await.map_err(failed)
}

/// Linux has a priority for each thread; elsewhere it is that of the whole process, and is left.
#[cfg(target_os = "linux")]
fn lower_priority() {
    const LOWEST: i32 = 19;
    if let Err(error) = rustix::process::nice(LOWEST) {
        tracing::debug!("a model is loaded at the usual priority: {error}");
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error() {
        assert_eq!(at_low_priority(|| 7).await, Ok(7));
        assert!(at_low_priority(|| panic!("on purpose")).await.is_err());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn only_that_thread_is_slowed_down() {
        let own = || rustix::process::nice(0).expect("a priority");
        let before = own();
        assert_eq!(at_low_priority(own).await, Ok(19));
        assert_eq!(own(), before);
    }
}
