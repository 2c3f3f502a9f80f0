//! The thread that owns an engine: takes commands, steps, hands out events.
//!
//! It blocks while there is nothing to do and never spins: each turn of its loop waits for a step
//! or for a command. Before each turn it takes all commands that have come, so a cancelled request
//! is gone, and a new one is there, when the next step is planned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};

use terrace_tiers::HandleId;
use tokio::sync::mpsc::UnboundedSender;

use super::board::Board;
use super::command::{Command, HandleReply, Submission};
use super::shutdown::Shutdown;
use crate::generate::engine::{Engine, Events, Rest};
use crate::generate::request::RequestId;
use crate::generate::token_event::{Failure, FinishReason, TokenEvent};

pub(crate) struct EngineThread {
    engine: Engine,
    commands: Receiver<Command>,
    board: Arc<Board>,
    outboxes: BTreeMap<RequestId, Outbox>,
    /// Of who waits for a handle, the first asked first.
    replies: BTreeMap<HandleId, Vec<HandleReply>>,
    /// Requests taken since the board was last written.
    seen: usize,
    stop: Option<Shutdown>,
}

struct Outbox {
    events: UnboundedSender<TokenEvent>,
    unfinished: usize,
}

impl EngineThread {
    pub(crate) fn new(engine: Engine, commands: Receiver<Command>, board: Arc<Board>) -> Self {
        let (outboxes, replies) = (BTreeMap::new(), BTreeMap::new());
        EngineThread { engine, commands, board, outboxes, replies, seen: 0, stop: None }
    }

    pub(crate) fn run(mut self) {
        loop {
            self.take_commands();
            match self.stop {
                Some(Shutdown::Now) => break,
                Some(_) if self.engine.is_idle() && self.engine.rest().is_some() => break,
                _ => {}
            }
            let events = self.engine.step();
            // First the board: who has seen a request's last event finds its pages free.
            self.write_board();
            self.deliver(events);
            self.reply();
        }
        self.cancel_all();
        self.write_board();
    }

    fn cancel_all(&mut self) {
        for id in self.outboxes.keys().copied().collect::<Vec<_>>() {
            self.cancel(id);
        }
    }

    /// Takes all commands that are there; waits for one when there is nothing else to do.
    fn take_commands(&mut self) {
        let is_ending = self.stop.is_some_and(|how| how == Shutdown::Now || self.engine.is_idle());
        if let (Some(rest), false) = (self.engine.rest(), is_ending) {
            let command = match rest {
                Rest::UntilWoken => self.commands.recv().map_err(RecvTimeoutError::from),
                Rest::For(time) => self.commands.recv_timeout(time),
            };
            match command {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.stop = Some(Shutdown::Now),
            }
        }
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.obey(command),
                Err(TryRecvError::Empty) => break,
                // No handle and no receiver is left: nobody waits for an output.
                Err(TryRecvError::Disconnected) => {
                    self.stop = Some(Shutdown::Now);
                    break;
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submissions) => {
                submissions.into_iter().for_each(|submission| self.take(submission));
            }
            Command::Pin { id, past, reply } => {
                self.replies.entry(id).or_default().push(reply);
                self.engine.pin(id, past);
            }
            Command::Unpin(id) => self.engine.unpin(id),
            Command::Release(id, reply) => {
                self.engine.release_named(id);
                self.write_board();
                // Most do not wait for it.
                let _ = reply.send(());
            }
            Command::Recent(id, reply) => {
                // Who has asked may have left.
                let _ = reply.send(self.engine.recent(id));
            }
            Command::Cancel(id) => self.cancel(id),
            Command::CancelChoice(id, choice) => {
                let events = self.engine.cancel_choice(id, choice);
                self.deliver(events);
            }
            Command::TraceCaches(positions, reply) => {
                // Who has asked may have left.
                let _ = reply.send(self.engine.cache_traces(positions));
            }
            Command::ListSessions(query, reply) => {
                self.engine.tick();
                let _ = reply.send(self.engine.sessions(&query));
            }
            Command::EndSession(key, reply) => {
                self.engine.tick();
                let _ = reply.send(self.engine.end_session(&key));
            }
            Command::Wake => {}
            Command::Stop(how) => {
                if how == Shutdown::Flush {
                    self.cancel_all();
                }
                self.engine.begin_flush();
                self.stop = Some(how);
            }
        }
    }

    fn take(&mut self, submission: Submission) {
        let Submission { id, request, past, keep, events } = submission;
        self.seen += 1;
        let unfinished = request.choices();
        self.outboxes.insert(id, Outbox { events, unfinished });
        if let Err(error) = self.engine.enqueue(id, request, past) {
            tracing::error!(%error, "a request is refused");
            let reason = FinishReason::Failed(Failure::NoRoomForCache);
            let ended = |choice| (id, TokenEvent::Finished { choice, reason });
            self.deliver((0..unfinished).map(ended).collect());
            return;
        }
        if let Some((keep, reply)) = keep {
            let name = keep.id;
            match self.engine.keep_as(id, keep) {
                Ok(()) => self.replies.entry(name).or_default().push(reply),
                // Who has asked may have left.
                Err(error) => drop(reply.send(Err(error))),
            }
        }
    }

    /// Answers who waits for a handle.
    fn reply(&mut self) {
        for (id, result) in self.engine.handle_results() {
            let mut replies = self.replies.remove(&id).unwrap_or_default().into_iter();
            match (replies.next(), &result) {
                (Some(first), _) => {
                    // Nobody waits for those that are pinned since they were made.
                    if let Err(Err(error)) = first.send(result) {
                        tracing::warn!("handle {id}: {error}");
                    }
                }
                (None, Err(error)) => tracing::warn!("handle {id}: {error}"),
                (None, Ok(_)) => {}
            }
            let others: Vec<_> = replies.collect();
            if !others.is_empty() {
                self.replies.insert(id, others);
            }
        }
    }

    fn cancel(&mut self, id: RequestId) {
        let events = self.engine.cancel(id);
        self.deliver(events);
    }

    fn deliver(&mut self, events: Events) {
        for (id, event) in events {
            let Some(outbox) = self.outboxes.get_mut(&id) else { continue };
            if matches!(event, TokenEvent::Finished { .. }) {
                outbox.unfinished -= 1;
            }
            // A receiver that is gone has sent its cancellation.
            let _ = outbox.events.send(event);
            if outbox.unfinished == 0 {
                self.outboxes.remove(&id);
            }
        }
    }

    fn write_board(&mut self) {
        let mut front = self.board.front.lock().expect("no one panics while holding it");
        front.stats = self.engine.stats();
        front.resident = self.engine.resident_handles();
        front.unseen -= std::mem::take(&mut self.seen);
        self.board.steps.send_replace(front.stats.steps);
    }
}

impl Drop for EngineThread {
    /// Also when the engine panics: its receivers then see their channels close.
    fn drop(&mut self) {
        self.board.is_running.store(false, Ordering::Release);
        // Wakes whoever waits for a step that will not come.
        self.board.steps.send_modify(|_| {});
        if std::thread::panicking() {
            tracing::error!("the engine's thread has panicked; its requests fail");
        }
    }
}
