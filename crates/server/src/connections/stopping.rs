//! The end of the service, as its connections hear of it.

use tokio::sync::watch;

/// Tells a connection that the service stops; the service waits until all of these are dropped.
pub struct Stopping {
    stop: watch::Receiver<bool>,
}

impl Stopping {
    pub fn new(stop: watch::Receiver<bool>) -> Self {
        Self { stop }
    }

    pub async fn wait(&mut self) {
        if self.stop.wait_for(|stop| *stop).await.is_err() {
            // The service is gone without a word: nobody waits for this connection.
            std::future::pending::<()>().await;
        }
    }

    pub fn has_come(&self) -> bool {
        *self.stop.borrow()
    }
}
