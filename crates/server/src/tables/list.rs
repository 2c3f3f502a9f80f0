//! `GET /v1/tables`

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use terrace_embedding::{
    CacheHolds, ConsumerCounters, HotCache, KeyKind, Level, LevelKind, ParameterServer, ServedSets,
    ServedTable, TableCache, UpdateScope,
};
use utoipa::ToSchema;

use super::table_service::full_name;
use crate::api_error::JsonReply;
use crate::app_state::AppState;
use crate::bounded_work::off_thread;

#[derive(Serialize, ToSchema)]
pub struct TableList {
    /// `list`
    object: &'static str,
    /// The tables, in the order of the configuration. Of one that is being replaced there are two,
    /// the older first.
    data: Vec<TableShape>,
    /// Who reads updates; none where no source is configured.
    consumers: Vec<ConsumerShape>,
}

#[derive(Serialize, ToSchema)]
struct TableShape {
    /// What models call it, as `MODEL.TABLE`; several where they share it.
    names: Vec<String>,
    /// What it is called in databases.
    tag: String,
    /// What tells the files that its rows began with from others.
    version: String,
    /// Numbers of a row.
    dim: usize,
    /// `int64` or `uint32`.
    key_type: &'static str,
    /// What the numbers of a row are that no level has.
    default_value: f32,
    /// One for each device; none where the model has `gpucache` off.
    hot_caches: Vec<HotCacheShape>,
    /// The share of different keys that hot caches had, of all look-ups; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_rate: Option<f64>,
    /// In the order in which they are asked.
    levels: Vec<LevelShape>,
    /// How far behind its updates are, for each topic that has been seen.
    updates: Vec<UpdateLagShape>,
}

#[derive(Serialize, ToSchema)]
struct HotCacheShape {
    /// `cpu`, or the GPU such as `cuda:0`.
    device: String,
    /// Rows that it has room for.
    slots: usize,
    /// `recent` (those that were asked for last) or `all`.
    holds: &'static str,
}

#[derive(Serialize, ToSchema)]
struct LevelShape {
    /// `ram`, `redis`, `rocksdb` or `embedded`.
    level: String,
    /// Rows that it has; of a database about so many. Absent where that is not known without asking
    /// another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    /// Keys that it was asked for and had.
    hits: u64,
    /// Keys that it was asked for and did not give, whatever the reason.
    misses: u64,
    /// Whether updates of the table are written to it.
    takes_updates: bool,
    /// Whether look-ups pass it by until its rows are known to be right.
    suspended: bool,
    /// Whether it has failed, so that it is not read for a while.
    reads_refused: bool,
    /// Whether it has failed, so that it is not written for a while.
    writes_refused: bool,
}

#[derive(Serialize, ToSchema)]
struct UpdateLagShape {
    /// Kafka's topic.
    topic: String,
    /// `own` (this server's levels) or `shared` (Redis).
    scope: &'static str,
    /// Messages that are published and not applied.
    messages: u64,
    /// Milliseconds since the last applied one was published; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
}

#[derive(Serialize, ToSchema)]
struct ConsumerShape {
    /// `own` (this server's levels) or `shared` (Redis).
    scope: &'static str,
    /// Whether a broker answered lately.
    connected: bool,
    /// Whether its thread lives.
    running: bool,
    /// The last that Kafka's client had to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

/// The tables that are served, with their levels and how these fare.
#[utoipa::path(get, path = "/v1/tables", tag = "Tables", operation_id = "listTables",
    responses((status = 200, description = "all of them", body = TableList)))]
pub async fn list(State(state): State<Arc<AppState>>) -> JsonReply<TableList> {
    let sets = state.services.tables.sets();
    // Databases are asked how many rows they have.
    off_thread(move || Ok(Json(TableList::of(ServedSets(&sets))))).await
}

impl TableList {
    fn of(sets: ServedSets<'_>) -> Self {
        let tables = sets.tables().into_iter();
        let tables = tables.map(|(set, table)| TableShape::of(set, table, &set.consumers()));
        TableList {
            object: "list",
            data: tables.collect(),
            consumers: sets.consumers().iter().map(ConsumerShape::of).collect(),
        }
    }
}

impl TableShape {
    fn of(
        server: &ParameterServer,
        table: &Arc<ServedTable>,
        consumers: &[(UpdateScope, ConsumerCounters)],
    ) -> Self {
        let (spec, counters) = (table.spec(), table.counters());
        let names = server.names().filter(|(_, other)| Arc::ptr_eq(other, table));
        let topics = server.topics(table);
        let lags = consumers.iter().flat_map(|(scope, counters)| {
            let lags = counters.topics.iter().filter(|lag| topics.contains(&lag.topic));
            lags.map(|lag| UpdateLagShape {
                topic: lag.topic.clone(),
                scope: scope.name(),
                messages: lag.messages,
                age_ms: lag.age_ms,
            })
        });
        TableShape {
            names: names.map(|(name, _)| full_name(name)).collect(),
            tag: spec.tag.to_string(),
            version: server.version(table).to_owned(),
            dim: spec.dim,
            key_type: match spec.key_kind {
                KeyKind::I64 => "int64",
                KeyKind::U32 => "uint32",
            },
            default_value: spec.default_value,
            hot_caches: table.caches().iter().map(HotCacheShape::of).collect(),
            hit_rate: (counters.unique > 0).then(|| counters.hits as f64 / counters.unique as f64),
            levels: table.levels().levels().iter().map(LevelShape::of).collect(),
            updates: lags.collect(),
        }
    }
}

impl HotCacheShape {
    fn of(cache: &TableCache) -> Self {
        HotCacheShape {
            device: match cache.cache() {
                HotCache::Host(_) => "cpu".to_owned(),
                HotCache::Cuda(cache) => format!("cuda:{}", cache.ordinal()),
            },
            slots: cache.cache().slots(),
            holds: match cache.holds() {
                CacheHolds::Recent => "recent",
                CacheHolds::All => "all",
            },
        }
    }
}

impl LevelShape {
    fn of(level: &Level) -> Self {
        let counters = level.counters();
        let is_here = level.kind() != LevelKind::Redis;
        LevelShape {
            level: level.name().to_owned(),
            // One that fails says so in its own fields.
            rows: is_here.then(|| level.store().count().ok()).flatten(),
            hits: counters.hits,
            misses: counters.misses,
            takes_updates: level.takes_updates(),
            suspended: level.is_suspended(),
            reads_refused: counters.calls.reads_are_refused,
            writes_refused: counters.calls.writes_are_refused,
        }
    }
}

impl ConsumerShape {
    fn of((scope, counters): &(UpdateScope, ConsumerCounters)) -> Self {
        ConsumerShape {
            scope: scope.name(),
            connected: counters.is_connected,
            running: counters.is_running,
            last_error: counters.last_error.clone(),
        }
    }
}
