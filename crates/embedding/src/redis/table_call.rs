//! One call to a table: its link, how long its servers may take, and the first thing that failed.
//!
//! Every answer comes within the time limit. After the first error all that is left of the call has
//! that time once more; a look-up has it once in all. What others answered counts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, RedisResult, Value};
use terrace_tiers::{RedisLink, TierError};
use tokio::time::{Instant, timeout_at};

use super::redis_table::{Field, Hash, RedisTable};

pub(super) struct TableCall<'a> {
    pub(super) table: &'a RedisTable,
    link: RedisLink,
    link_number: u64,
    state: Mutex<CallState>,
}

#[derive(Default)]
struct CallState {
    /// Nothing is waited for after it.
    ends_at: Option<Instant>,
    first_error: Option<TierError>,
}

/// How long a call may take.
#[derive(Clone, Copy)]
pub(super) enum CallTime {
    /// The time limit.
    InAll,
    /// As long as answers come, each within the time limit.
    WhileAnswersCome,
}

/// Answers about a partition: of its rows, and of its marks.
pub(super) struct Answers {
    pub(super) rows: Vec<Value>,
    pub(super) marks: Vec<Value>,
}

impl<'a> TableCall<'a> {
    pub(super) async fn begin(table: &'a RedisTable, time: CallTime) -> Result<Self, TierError> {
        let ends_at = match time {
            CallTime::InAll => Some(Instant::now() + table.session.timeout()),
            CallTime::WhileAnswersCome => None,
        };
        let (link, link_number) = table.session.link().await?;
        let state = Mutex::new(CallState { ends_at, first_error: None });
        Ok(TableCall { table, link, link_number, state })
    }

    /// One command about a hash.
    pub(super) async fn run(&self, hash: &Hash, command: Cmd) -> Result<Value, TierError> {
        self.in_time(hash, self.link.run_at(hash.slot, command)).await
    }

    /// Commands about the rows of a partition, and then those about its marks; in one pipeline
    /// where both hashes are in one slot. Errors of the server in answers about marks stay there.
    pub(super) async fn run_all(
        &self,
        partition: u32,
        rows: Vec<Cmd>,
        marks: Vec<Cmd>,
    ) -> Result<Answers, TierError> {
        let partition = self.table.partition(partition);
        let row_count = rows.len();
        let answers = match partition.rows.slot == partition.marks.slot {
            true => {
                let all = rows.into_iter().chain(marks).collect();
                let mut rows = self.run_pipeline(&partition.rows, all).await?;
                let marks = rows.split_off(row_count.min(rows.len()));
                Answers { rows, marks }
            }
            false => Answers {
                rows: self.run_pipeline(&partition.rows, rows).await?,
                marks: self.run_pipeline(&partition.marks, marks).await?,
            },
        };
        let checked = |value: Value| {
            let fault = |error| self.table.session.fault(&error, &self.place(&partition.rows));
            value.extract_error().map_err(fault)
        };
        let rows = answers.rows.into_iter().map(checked).collect::<Result<Vec<_>, _>>()?;
        if rows.len() != row_count {
            return Err(self.table.unexpected("a pipeline"));
        }
        Ok(Answers { rows, marks: answers.marks })
    }

    /// Runs commands about rows, and marks fields as used so many times beside them.
    pub(super) async fn run_and_mark(
        &self,
        partition: u32,
        rows: Vec<Cmd>,
        used: &[(Field, u32)],
    ) -> Result<Vec<Value>, TierError> {
        let hash = &self.table.partition(partition).marks;
        let marks = self.table.marks.commands(&hash.name, used);
        let answers = self.run_all(partition, rows, marks).await?;
        // A count of something that is none begins anew: the policy was another one.
        let refused = |(answer, (field, uses)): (&Value, &(Field, u32))| {
            matches!(answer, Value::ServerError(_)).then_some((*field, u64::from(*uses)))
        };
        let anew: Vec<(Field, u64)> = answers.marks.iter().zip(used).filter_map(refused).collect();
        if !anew.is_empty() {
            self.run(hash, self.table.marks.set(&hash.name, &anew)).await?;
        }
        Ok(answers.rows)
    }

    async fn run_pipeline(&self, hash: &Hash, all: Vec<Cmd>) -> Result<Vec<Value>, TierError> {
        match all.is_empty() {
            true => Ok(Vec::new()),
            false => self.in_time(hash, self.link.run_all_at(hash.slot, all)).await,
        }
    }

    async fn in_time<T>(
        &self,
        hash: &Hash,
        answer: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, TierError> {
        let session = &self.table.session;
        match timeout_at(self.patient_until(), answer).await {
            Ok(answer) => answer.map_err(|error| session.fault(&error, &self.place(hash))),
            Err(_) => Err(session.timed_out(&self.place(hash), "answer")),
        }
    }

    /// Keeps the first error.
    pub(super) fn failed(&self, error: TierError) {
        let mut state = self.state();
        state.ends_at = state.ends_at.or(Some(Instant::now() + self.limit()));
        state.first_error.get_or_insert(error);
    }

    /// The first error. One that a new link may not have takes this one away.
    pub(super) fn end(&self) -> Result<(), TierError> {
        let Some(error) = self.state().first_error.take() else { return Ok(()) };
        if matches!(error, TierError::TimedOut(_) | TierError::Unavailable(_)) {
            self.table.session.drop_link(self.link_number);
        }
        Err(error)
    }

    fn patient_until(&self) -> Instant {
        let until = Instant::now() + self.limit();
        self.state().ends_at.map_or(until, |ends_at| ends_at.min(until))
    }

    fn limit(&self) -> Duration {
        self.table.session.timeout()
    }

    /// The node and the hash that something is about.
    fn place(&self, hash: &Hash) -> String {
        format!("redis at {}, {}", self.link.node_of(hash.slot), hash.name)
    }

    fn state(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
