//! Whether the rows of a partition are what was last written there.
//!
//! A node that restarts, or a replica that takes its place, may have lost the last writes, all
//! rows, or have those of an old snapshot. So a partition says beside its rows which version of the
//! table they are of and in which run of its node they were vouched for. Only while that run lasts
//! are they trusted. All servers of a cluster see the same.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use redis::{Cmd, Value, from_redis_value};
use terrace_tiers::TierError;

use super::redis_store::{RedisStore, UNDER_WAY};
use super::table_call::{CallTime, TableCall};

/// A partition, and the run of its node that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRun {
    pub partition: u32,
    pub run_id: Arc<str>,
    /// What is said of its rows now.
    pub vouched: Vouched,
}

/// Who has vouched for the rows of a partition that are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouched {
    Nobody,
    /// For another version of the table.
    OtherVersion,
    /// For this version, in an earlier run of its node, so that the last writes may be lost; or
    /// they are still on their way.
    EarlierRun,
}

/// In the place of a node's run while the rows of a version are on their way.
const NO_RUN: &str = "-";

impl RedisStore {
    /// The partitions whose rows nobody has vouched for as this version's, in this run of their
    /// node.
    pub fn untrusted(&self, version: &str) -> Result<Vec<PartitionRun>, TierError> {
        let runs = self.each_partition(async |call, partition| {
            let trust = &self.table.partition(partition).trust;
            let commands = vec![command("INFO", &["server"]), command("GET", &[trust])];
            let answers = call.run_all(partition, commands, Vec::new()).await?.rows;
            let [info, vouched] = <[Value; 2]>::try_from(answers)
                .map_err(|_| self.table.unexpected("INFO and GET"))?;
            let run_id = self.run_id(info)?;
            let text: Option<String> =
                from_redis_value(vouched).map_err(|_| self.table.unexpected("GET"))?;
            let vouched = match text.as_deref().map(|text| text.rsplit_once(' ')) {
                Some(Some(vouched)) if vouched == (version, &*run_id) => return Ok(None),
                Some(Some((of, _))) if of == version => Vouched::EarlierRun,
                Some(_) => Vouched::OtherVersion,
                None => Vouched::Nobody,
            };
            Ok(Some(PartitionRun { partition, run_id, vouched }))
        })?;
        Ok(runs.into_iter().flatten().collect())
    }

    /// Takes all rows of partitions away, and says of which version the next ones are.
    pub fn clear(&self, partitions: &[PartitionRun], version: &str) -> Result<(), TierError> {
        self.each_of(partitions, async |call, run| {
            let partition = self.table.partition(run.partition);
            let announced = format!("{version} {NO_RUN}");
            let announce = command("SET", &[&partition.trust, &announced]);
            let rows = vec![announce, command("UNLINK", &[&partition.rows.name])];
            let marks = vec![command("UNLINK", &[&partition.marks.name])];
            call.run_all(run.partition, rows, marks).await.map(|_| ())
        })
    }

    /// Vouches for the rows of partitions, if their nodes have not restarted since they were seen.
    pub fn trust(&self, partitions: &[PartitionRun], version: &str) -> Result<(), TierError> {
        self.each_of(partitions, async |call, run| {
            let trust = &self.table.partition(run.partition).trust;
            let set = command("SET", &[trust, &format!("{version} {}", run.run_id)]);
            call.run_all(run.partition, vec![set], Vec::new()).await.map(|_| ())
        })
    }

    pub fn partitions(&self) -> usize {
        self.table.partitions.len()
    }

    /// Which of the keys are in some of the partitions.
    pub fn are_in(&self, keys: &[i64], partitions: &[PartitionRun]) -> Vec<bool> {
        let mut is_in = vec![false; self.table.partitions.len()];
        partitions.iter().for_each(|run| is_in[run.partition as usize] = true);
        keys.iter().map(|key| is_in[self.table.partition_of(*key) as usize]).collect()
    }

    fn run_id(&self, info: Value) -> Result<Arc<str>, TierError> {
        let info: Option<String> = from_redis_value(info).ok();
        let line = info.as_deref().into_iter().flat_map(str::lines);
        let run_id = line.filter_map(|line| line.strip_prefix("run_id:")).next();
        run_id.map(Arc::from).ok_or_else(|| self.table.unexpected("INFO"))
    }

    fn each_of(
        &self,
        partitions: &[PartitionRun],
        work: impl AsyncFn(&TableCall<'_>, &PartitionRun) -> Result<(), TierError>,
    ) -> Result<(), TierError> {
        self.table.session.block_on(async {
            let call = TableCall::begin(&self.table, CallTime::WhileAnswersCome).await?;
            let work = stream::iter(partitions).map(|run| work(&call, run));
            let done = work.buffer_unordered(UNDER_WAY).try_collect::<Vec<()>>().await;
            ended(&call, done).map(|_| ())
        })
    }

    fn each_partition<T>(
        &self,
        work: impl AsyncFn(&TableCall<'_>, u32) -> Result<T, TierError>,
    ) -> Result<Vec<T>, TierError> {
        self.table.session.block_on(async {
            let call = TableCall::begin(&self.table, CallTime::InAll).await?;
            let partitions = 0..self.table.partitions.len() as u32;
            let work = stream::iter(partitions).map(|partition| work(&call, partition));
            let done = work.buffered(UNDER_WAY).try_collect().await;
            ended(&call, done)
        })
    }
}

fn ended<T>(call: &TableCall<'_>, done: Result<T, TierError>) -> Result<T, TierError> {
    if let Err(error) = &done {
        call.failed(error.clone());
        call.end()?;
    }
    done
}

fn command(name: &str, arguments: &[&str]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(arguments);
    command
}
