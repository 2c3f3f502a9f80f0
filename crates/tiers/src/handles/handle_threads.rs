//! Threads that carry out the work of the store of handles, one for each direction.
//!
//! A page that was read has passed its checksum. The thread that saves removes expired handles
//! about once a minute.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_cache::StorePageId;
use terrace_device::cuda::PinnedPages;

use super::disk_handles::DiskHandles;
use super::handle_error::HandleError;
use super::handle_executor::HandleExecutor;
use super::handle_file::HandleFault;
use super::handle_id::HandleId;
use super::handle_info::HandleInfo;
use super::handle_manifest::HandleManifest;
use super::handle_work::{HandleDone, HandleTask, HandleWork};
use crate::tier_executor::Wake;
use crate::{TierError, Wait};

const EXPIRY_EVERY: Duration = Duration::from_secs(60);

pub struct HandleThreads {
    /// `None` when they shall end.
    queues: Option<Queues>,
    results: Receiver<HandleDone>,
    wake: Arc<OnceLock<Wake>>,
    threads: Vec<JoinHandle<()>>,
}

struct Queues {
    saves: Sender<HandleWork>,
    loads: Sender<HandleWork>,
}

/// What each thread has.
#[derive(Clone)]
struct Worker {
    handles: Arc<DiskHandles>,
    pages: Arc<PinnedPages>,
    results: Sender<HandleDone>,
    wake: Arc<OnceLock<Wake>>,
}

impl HandleThreads {
    pub fn start(handles: &Arc<DiskHandles>, pages: &Arc<PinnedPages>) -> std::io::Result<Self> {
        let (results_in, results) = mpsc::channel();
        let wake = Arc::new(OnceLock::new());
        let worker = Worker {
            handles: Arc::clone(handles),
            pages: Arc::clone(pages),
            results: results_in,
            wake: Arc::clone(&wake),
        };
        let mut threads = Vec::new();
        let mut spawn = |name: &str| -> std::io::Result<Sender<HandleWork>> {
            let (queue, work) = mpsc::channel();
            let (worker, removes_expired) = (worker.clone(), name == "handle-save");
            let builder = std::thread::Builder::new().name(name.into());
            threads.push(builder.spawn(move || worker.run(&work, removes_expired))?);
            Ok(queue)
        };
        let queues = Some(Queues { saves: spawn("handle-save")?, loads: spawn("handle-load")? });
        Ok(HandleThreads { queues, results, wake, threads })
    }
}

impl HandleExecutor for HandleThreads {
    fn start(&mut self, work: HandleWork) {
        let queues = self.queues.as_ref().expect("they live as long as this");
        let queue = match &work.task {
            HandleTask::Save { .. } => &queues.saves,
            HandleTask::Load { .. } => &queues.loads,
        };
        queue.send(work).expect("a thread lives as long as its queue");
    }

    fn done(&mut self, wait: Wait) -> Vec<HandleDone> {
        let mut done = Vec::new();
        if wait == Wait::ForOne {
            done.push(self.results.recv().expect("a thread that has work lives"));
        }
        done.extend(self.results.try_iter());
        done
    }

    fn wake_by(&mut self, wake: Wake) {
        assert!(self.wake.set(wake).is_ok(), "one engine waits for them");
    }
}

impl Drop for HandleThreads {
    /// Threads end after the work that they have.
    fn drop(&mut self) {
        self.queues = None;
        for thread in self.threads.drain(..) {
            // A panic was logged where it happened.
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn run(&self, queue: &Receiver<HandleWork>, removes_expired: bool) {
        loop {
            match queue.recv_timeout(EXPIRY_EVERY) {
                Ok(HandleWork { id, task }) => {
                    let result = match &task {
                        HandleTask::Save { manifest, pages } => {
                            self.save(manifest, pages).map(Some)
                        }
                        HandleTask::Load { handle, pages } => {
                            self.load(*handle, pages).map(|()| None)
                        }
                    };
                    // An engine that has ended waits for nothing.
                    let _ = self.results.send(HandleDone { id, result });
                    if let Some(wake) = self.wake.get() {
                        wake();
                    }
                }
                Err(RecvTimeoutError::Timeout) if removes_expired => self.remove_expired(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn save(
        &self,
        manifest: &HandleManifest,
        pages: &[StorePageId],
    ) -> Result<HandleInfo, HandleError> {
        let page = |page: &StorePageId| self.pages.try_read(page.index());
        let page = |id| page(id).expect("nobody writes it");
        self.handles.save(manifest, pages.iter().map(page))
    }

    fn load(&self, id: HandleId, pages: &[StorePageId]) -> Result<(), HandleError> {
        let mut reader = self.handles.open_reader(id)?;
        let damaged = |fault: HandleFault| match fault {
            HandleFault::Io(error) => {
                TierError::Io(format!("cannot read handle {id}: {error}")).into()
            }
            fault => HandleError::Damaged { id, fault },
        };
        for page in pages {
            let mut to = self.pages.try_write(page.index()).expect("nobody uses it");
            reader.read_page(&mut to).map_err(damaged)?;
        }
        reader.finish().map_err(damaged)?;
        Ok(())
    }

    fn remove_expired(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Err(error) = self.handles.remove_expired(now.as_millis() as u64) {
            tracing::warn!("expired handles cannot be removed: {error}");
        }
    }
}
