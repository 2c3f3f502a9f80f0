//! Threads that carry out the work of the store of handles, one for each direction.
//!
//! A page that was read has passed its checksum. The thread that saves removes expired handles
//! about once a minute.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
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
use crate::work_threads::{WorkReports, WorkThreads};
use crate::{TierError, Wait};

const EXPIRY_EVERY: Duration = Duration::from_secs(60);

pub struct HandleThreads {
    /// They go before the threads.
    saves: Sender<HandleWork>,
    loads: Sender<HandleWork>,
    threads: WorkThreads<HandleDone>,
}

/// What each thread has.
#[derive(Clone)]
struct Worker {
    handles: Arc<DiskHandles>,
    pages: Arc<PinnedPages>,
    reports: WorkReports<HandleDone>,
}

impl HandleThreads {
    pub fn start(handles: &Arc<DiskHandles>, pages: &Arc<PinnedPages>) -> std::io::Result<Self> {
        let (mut threads, reports) = WorkThreads::new();
        let (handles, pages) = (Arc::clone(handles), Arc::clone(pages));
        let worker = Worker { handles, pages, reports };
        let mut spawn = |name: &str| -> std::io::Result<Sender<HandleWork>> {
            let (queue, work) = mpsc::channel();
            let (worker, removes_expired) = (worker.clone(), name == "handle-save");
            threads.spawn(name, move || worker.run(&work, removes_expired))?;
            Ok(queue)
        };
        let (saves, loads) = (spawn("handle-save")?, spawn("handle-load")?);
        Ok(HandleThreads { saves, loads, threads })
    }
}

impl HandleExecutor for HandleThreads {
    fn start(&mut self, work: HandleWork) {
        let queue = match &work.task {
            HandleTask::Save { .. } => &self.saves,
            HandleTask::Load { .. } => &self.loads,
        };
        queue.send(work).expect("a thread lives as long as its queue");
    }

    fn done(&mut self, wait: Wait) -> Vec<HandleDone> {
        self.threads.done(wait)
    }

    fn wake_by(&mut self, wake: Wake) {
        self.threads.wake_by(wake);
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
                    self.reports.report(HandleDone { id, result });
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
