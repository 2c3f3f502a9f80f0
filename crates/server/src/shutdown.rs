//! The order to end requests that still run, from the server to each of them.

use tokio::sync::watch;

/// Raises the signal; dropping it without raising leaves the signal silent for ever.
pub struct Canceller {
    raise: watch::Sender<bool>,
}

/// Waits for the signal; every running request holds one.
#[derive(Clone)]
pub struct CancelSignal {
    raised: watch::Receiver<bool>,
}

pub fn cancel_signal() -> (Canceller, CancelSignal) {
    let (raise, raised) = watch::channel(false);
    (Canceller { raise }, CancelSignal { raised })
}

impl Canceller {
    pub fn cancel(&self) {
        self.raise.send_replace(true);
    }
}

impl CancelSignal {
    pub async fn cancelled(&mut self) {
        if self.raised.wait_for(|raised| *raised).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
