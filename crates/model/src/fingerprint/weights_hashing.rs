//! Hashing weights beside whatever else a start does: on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use terrace_device::HostMap;

use super::hash_store::{HashStore, states_of};
use super::weights_hash::{WeightsHash, file_hash};

/// A hash in the making.
pub struct WeightsHashing {
    hash: Receiver<WeightsHash>,
    /// Bytes read so far, and of all files.
    read: Arc<AtomicU64>,
    bytes: u64,
}

/// After so long a wait the log says what is waited for, and then again.
const LOGGED_EVERY: Duration = Duration::from_secs(5);

impl WeightsHashing {
    /// Looks the files up in the store, and starts hashing them where it does not know them.
    pub fn start(files: Vec<Arc<HostMap>>, store: Option<HashStore>) -> Self {
        let states = states_of(&files);
        let store = store.zip(states);
        if let Some(hashes) = store.as_ref().and_then(|(store, states)| store.find(states)) {
            return WeightsHash::of_hashes(&hashes).into();
        }
        let read = Arc::new(AtomicU64::new(0));
        let bytes = files.iter().map(|file| file.len() as u64).sum();
        let (sender, hash) = mpsc::sync_channel(1);
        let count = Arc::clone(&read);
        let add = move |bytes: usize| {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
        };
        let hashing = move || {
            let hashes: Vec<_> = files.iter().map(|file| file_hash(file, &add)).collect();
            if let Some((store, states)) = store {
                store.keep(&states, &hashes);
            }
            // Nobody waits any more where the start has failed.
            let _ = sender.send(WeightsHash::of_hashes(&hashes));
        };
        let name = "weights hash".to_owned();
        thread::Builder::new().name(name).spawn(hashing).expect("the system starts a thread");
        WeightsHashing { hash, read, bytes }
    }

    /// Waits for the hash; says so in the log where that takes long.
    pub fn wait(self) -> WeightsHash {
        loop {
            match self.hash.recv_timeout(LOGGED_EVERY) {
                Ok(hash) => return hash,
                Err(RecvTimeoutError::Disconnected) => panic!("hashing weights has panicked"),
                Err(RecvTimeoutError::Timeout) => {
                    let read = self.read.load(Ordering::Relaxed);
                    let [read, all] = [read, self.bytes].map(|bytes| bytes >> 20);
                    tracing::info!("hashing the weights, once: {read} of {all} MiB");
                }
            }
        }
    }
}

/// One that is known already.
impl From<WeightsHash> for WeightsHashing {
    fn from(known: WeightsHash) -> Self {
        let (sender, hash) = mpsc::sync_channel(1);
        sender.send(known).expect("there is room for one");
        WeightsHashing { hash, read: Arc::default(), bytes: 0 }
    }
}
