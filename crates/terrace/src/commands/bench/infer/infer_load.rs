//! Requests over several connections: as many as are answered, or at a rate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::infer_connection::InferConnection;
use super::wire_request::WireRequest;
use crate::commands::bench::load::arrival_times;

pub struct InferLoad {
    pub server: SocketAddr,
    pub connections: usize,
    /// Requests a second; none: as many as are answered.
    pub rate: Option<f64>,
    pub time: Duration,
}

#[derive(Default)]
pub struct InferLoadResult {
    /// Of requests that were answered.
    pub times: Vec<Duration>,
    pub errors: Vec<String>,
    pub took: Duration,
}

/// When requests are due; those of an open loop are known before.
struct Schedule {
    start: Instant,
    end: Instant,
    due: Option<Vec<Duration>>,
    next: AtomicUsize,
}

const SEED: u64 = 3;

impl InferLoad {
    /// An error if no connection can be made at first.
    pub async fn send(&self, request: WireRequest) -> Result<InferLoadResult> {
        let mut connections = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            let mut connection = InferConnection::open(self.server, request.form).await?;
            // What is made at the first request is not measured.
            connection.ask(self.server, &request).await?;
            connections.push(connection);
        }
        let start = Instant::now();
        let due = self.rate.map(|rate| {
            let count = (rate * self.time.as_secs_f64()).ceil() as usize;
            arrival_times(count, rate, SEED)
        });
        let schedule = Schedule { start, end: start + self.time, due, next: AtomicUsize::new(0) };
        let (schedule, request) = (Arc::new(schedule), Arc::new(request));
        let mut clients = JoinSet::new();
        for connection in connections {
            let (schedule, request) = (Arc::clone(&schedule), Arc::clone(&request));
            clients.spawn(ask_on_time(self.server, connection, schedule, request));
        }
        let mut all = InferLoadResult::default();
        while let Some(client) = clients.join_next().await {
            let InferLoadResult { times, errors, .. } = client?;
            all.times.extend(times);
            all.errors.extend(errors);
        }
        all.took = start.elapsed();
        Ok(all)
    }
}

impl Schedule {
    /// When the next request is due, which this takes.
    fn take(&self) -> Option<Instant> {
        match &self.due {
            None => Some(Instant::now()).filter(|now| *now < self.end),
            Some(due) => {
                let due = due.get(self.next.fetch_add(1, Ordering::Relaxed))?;
                Some(self.start + *due)
            }
        }
    }
}

async fn ask_on_time(
    server: SocketAddr,
    mut connection: InferConnection,
    schedule: Arc<Schedule>,
    request: Arc<WireRequest>,
) -> InferLoadResult {
    let mut result = InferLoadResult::default();
    while let Some(due) = schedule.take() {
        sleep_until(due.into()).await;
        match connection.ask(server, &request).await {
            Ok(()) => result.times.push(due.elapsed()),
            Err(error) => {
                result.errors.push(format!("{error:#}"));
                // It may have been closed; if none can be made, this client is done.
                match InferConnection::open(server, request.form).await {
                    Ok(opened) => connection = opened,
                    Err(_) => return result,
                }
            }
        }
    }
    result
}
