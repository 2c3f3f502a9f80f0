//! From a model's files to an engine that ranks.

use std::sync::Arc;

use terrace_cache::users::{HistorySeed, UserCacheLimits};
use terrace_device::DType;
use terrace_embedding::{EmbeddingTable, TableSet};
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_model::hstu::{HstuFiles, TableTensors};

use super::cpu_rank_executor::{CpuRankExecutor, RankShape};
use super::rank_config::RankConfig;
use super::rank_engine::RankEngine;
use super::rank_front::RankFront;
use super::rank_handle::RankHandle;
use super::rank_scheduler::SchedulerLimits;
use crate::error::Error;

pub struct RankSetup<'a> {
    pub files: &'a HstuFiles,
    pub config: RankConfig,
    pub compute: Compute,
}

impl RankSetup<'_> {
    /// Reads the weights and starts the engine.
    pub fn start(self) -> Result<RankHandle, Error> {
        let RankSetup { files, config, compute } = self;
        let options = CpuOptions { threads: config.threads, level: None, compute };
        let ops = Ops::cpu(options)?;
        let hashing = files.hash_weights(None);
        let model = files.place_ranking(&ops)?;
        let tables = files.tables()?.into_iter().map(place_table).collect::<Result<_, _>>()?;
        let tables = Arc::new(TableSet::place(&ops.device(), tables)?);
        let dtype = if compute == Compute::F32 { DType::F32 } else { DType::Bf16 };
        let layout = model.stack().page_layout(config.page_tokens, dtype);
        let seed = HistorySeed::new(
            files.fingerprint(&hashing.wait()).as_bytes(),
            &ops.arithmetic_class().to_bytes(),
            format!("{layout:?}").as_bytes(),
        );
        let front = front(files, &config, Arc::clone(&tables), seed)?;
        let table_pages = front.max_history_tokens.div_ceil(config.page_tokens);
        let pages = (config.kv_bytes / layout.page_bytes()).max(table_pages);
        let limits = SchedulerLimits {
            max_step_tokens: config.max_step_tokens,
            max_users: config.max_users,
            max_waiting: config.max_waiting,
            cache: UserCacheLimits {
                page_tokens: config.page_tokens,
                device_pages: pages,
                host_pages: 0,
            },
            outputs: model.outputs(),
        };
        let shape = RankShape {
            max_step_tokens: config.max_step_tokens,
            max_users: config.max_users,
            max_history_tokens: front.max_history_tokens,
            max_candidates: front.max_candidates,
            pages,
        };
        let executor = CpuRankExecutor::new(ops, model, tables, layout, shape)?;
        let engine = RankEngine::new(limits, Box::new(executor));
        Ok(RankHandle::spawn(engine, front))
    }
}

fn place_table(table: TableTensors) -> Result<EmbeddingTable, Error> {
    let TableTensors { name, rows, keys } = table;
    Ok(EmbeddingTable::new(&name, rows, keys.as_deref(), None)?)
}

fn front(
    files: &HstuFiles,
    config: &RankConfig,
    tables: Arc<TableSet>,
    seed: HistorySeed,
) -> Result<RankFront, Error> {
    let of = |name: &str| tables.table(name).expect("each feature has a table");
    let model = &files.config;
    Ok(RankFront {
        layout: model.token_layout(),
        context_tables: model.contextual_features.iter().map(|name| of(name)).collect(),
        item_table: of(&model.item_feature),
        action_table: model.action_feature.as_deref().map(of),
        tables: Arc::clone(&tables),
        max_history_tokens: model.max_history_tokens,
        max_candidates: model.max_candidates,
        truncate: config.truncate,
        seed,
        page_tokens: config.page_tokens,
    })
}
