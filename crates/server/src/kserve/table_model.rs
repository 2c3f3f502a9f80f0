//! The tables of a parameter server's model, as Triton's HPS backend serves them: keys in, rows
//! out.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use terrace_embedding::{KeyKind, MissingRows, ParameterServer, ServedTable, TableName};

use super::batch_counter::BatchCounter;
use super::config_shape::{config_of, with_tensors};
use super::datatype::Datatype;
use super::infer_error::InferError;
use super::infer_outputs::{InferOutputs, InferTimes};
use super::infer_request::InferRequest;
use super::inference_model::{BatchExecutions, InferenceModel, ModelMetadata, TensorMetadata};
use super::messages::ModelConfig;
use super::model_registry::nanoseconds;
use super::tensor::Tensor;
use super::tensor_data::TensorData;
use crate::bounded_work::WorkMemory;
use crate::tables::ServedSet;

/// The keys of all tables, one table after the other.
const KEYS: &str = "KEYS";
/// How many of them each table has.
const NUMKEYS: &str = "NUMKEYS";
/// The rows of all keys, in their order.
const OUTPUT: &str = "OUTPUT0";

/// Numbers of one response: 32 MiB of them.
const NUMBERS_MOST: usize = 8 << 20;

pub struct TableModel {
    metadata: ModelMetadata,
    config: ModelConfig,
    server: Arc<ParameterServer>,
    /// Of tables that come and go with the model.
    _served: Option<ServedSet>,
    /// In the order of the configuration; at least one.
    tables: Vec<Arc<ServedTable>>,
    memory: Arc<WorkMemory>,
    batches: BatchCounter,
}

impl TableModel {
    /// One for each model of a configuration.
    pub fn of_all(server: &Arc<ParameterServer>, memory: &Arc<WorkMemory>) -> Vec<Self> {
        let models = server.models().filter_map(|tables| Self::new(server, &tables, memory));
        models.collect()
    }

    /// A version of a model whose tables are a set of their own; `None` where it has no table.
    pub fn of_version(
        version: u64,
        config: ModelConfig,
        served: ServedSet,
        memory: &Arc<WorkMemory>,
    ) -> Option<Self> {
        let set = Arc::clone(served.set());
        let mut model = Self::new(&set, &set.models().next()?, memory)?;
        model.metadata.version = version;
        model.config = with_tensors(config, &model.metadata);
        model._served = Some(served);
        Some(model)
    }

    fn new(
        server: &Arc<ParameterServer>,
        tables: &[(&TableName, &Arc<ServedTable>)],
        memory: &Arc<WorkMemory>,
    ) -> Option<Self> {
        let (name, first) = tables.first()?;
        let keys = match first.spec().key_kind {
            KeyKind::I64 => Datatype::Int64,
            KeyKind::U32 => Datatype::Uint32,
        };
        let list = |name: &str, datatype| TensorMetadata::new(name, datatype, &[-1]);
        let metadata = ModelMetadata {
            name: name.model.clone(),
            version: 1,
            platform: "hps".to_owned(),
            inputs: vec![list(KEYS, keys), list(NUMKEYS, Datatype::Int32)],
            outputs: vec![list(OUTPUT, Datatype::Fp32)],
        };
        Some(Self {
            config: ModelConfig { backend: "hps".to_owned(), ..config_of(&metadata) },
            metadata,
            server: Arc::clone(server),
            _served: None,
            tables: tables.iter().map(|(_, table)| Arc::clone(table)).collect(),
            memory: Arc::clone(memory),
            batches: BatchCounter::default(),
        })
    }

    async fn look_up(&self, request: InferRequest) -> Result<InferOutputs, InferError> {
        let started = Instant::now();
        let wanted = Wanted::read(request, &self.tables)?;
        let read = started.elapsed();
        // The rows are there up to four times: of all keys, of different ones, fetched, and sent.
        let held = self.memory.for_reply(wanted.numbers).await;
        let held = held.map_err(|error| InferError::from(&error))?;
        let (server, tables) = (Arc::clone(&self.server), self.tables.clone());
        let looking_up = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let rows = wanted.look_up(&server, &tables);
            // Held through the work, also when its client has left.
            (rows, held, begun, begun.elapsed())
        });
        let (rows, held, begun, took) = looking_up.await.map_err(|error| {
            tracing::error!(model = self.metadata.name, "a look-up failed: {error}");
            InferError::internal("the look-up failed; the server's log says why")
        })?;
        let times = InferTimes {
            queue_ns: nanoseconds(begun - started - read),
            input_ns: nanoseconds(read),
            infer_ns: nanoseconds(took),
            output_ns: 0,
        };
        self.batches.add(1, times);
        Ok(InferOutputs {
            tensors: vec![Tensor::list(OUTPUT, TensorData::Fp32(rows?))],
            inferences: 1,
            times,
            held: Some(Box::new(held)),
            ..InferOutputs::default()
        })
    }
}

impl InferenceModel for TableModel {
    fn metadata(&self) -> &ModelMetadata {
        &self.metadata
    }

    fn config(&self) -> ModelConfig {
        self.config.clone()
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'_, Result<InferOutputs, InferError>> {
        Box::pin(self.look_up(request))
    }

    fn batches(&self) -> Vec<BatchExecutions> {
        self.batches.batches()
    }
}

/// The keys of a request, checked.
struct Wanted {
    keys: Vec<i64>,
    /// Of each table.
    counts: Vec<usize>,
    /// Of all rows.
    numbers: usize,
}

impl Wanted {
    fn read(mut request: InferRequest, tables: &[Arc<ServedTable>]) -> Result<Self, InferError> {
        let keys = request.require_input(&[KEYS])?.into_keys()?;
        let counts = request.require_input(&[NUMKEYS])?.into_int32()?;
        request.finish(&[KEYS, NUMKEYS])?;
        let (found, wanted) = (counts.len(), tables.len());
        if found != wanted {
            let message = format!(
                "NUMKEYS has {found} numbers, and the model {wanted} tables; give one for each"
            );
            return Err(InferError::invalid(message));
        }
        let sizes = counts.iter().map(|count| usize::try_from(*count));
        let sizes = sizes.collect::<Result<Vec<_>, _>>().map_err(|_| {
            InferError::invalid(format!("NUMKEYS is {counts:?}; no table has fewer than 0 keys"))
        })?;
        let total: u64 = sizes.iter().map(|size| *size as u64).sum();
        if total != keys.len() as u64 {
            let given = keys.len();
            let message = format!("KEYS has {given} keys, and NUMKEYS adds up to {total}");
            return Err(InferError::invalid(message));
        }
        let numbers = sizes.iter().zip(tables).try_fold(0_usize, |numbers, (size, table)| {
            numbers.checked_add(size.checked_mul(table.spec().dim)?)
        });
        let Some(numbers) = numbers.filter(|numbers| *numbers <= NUMBERS_MOST) else {
            let given = keys.len();
            let message = format!(
                "the rows of {given} keys have more than the {NUMBERS_MOST} numbers of a response; \
                 ask for fewer at once"
            );
            return Err(InferError::invalid(message));
        };
        let kind = tables.first().map_or(KeyKind::I64, |table| table.spec().key_kind);
        kind.check(&keys).map_err(|error| InferError::invalid(format!("KEYS: {error}")))?;
        Ok(Self { keys, counts: sizes, numbers })
    }

    fn look_up(
        &self,
        server: &ParameterServer,
        tables: &[Arc<ServedTable>],
    ) -> Result<Vec<f32>, InferError> {
        let mut rows = vec![0.0; self.numbers];
        let (mut keys, mut left) = (self.keys.as_slice(), rows.as_mut_slice());
        for (table, count) in tables.iter().zip(&self.counts) {
            let (own, rest) = keys.split_at(*count);
            let (room, more) = left.split_at_mut(count * table.spec().dim);
            (keys, left) = (rest, more);
            server.look_up(table, own, MissingRows::AsConfigured, room).map_err(|error| {
                let tag = table.spec().tag.as_str();
                tracing::error!(table = tag, %error, "a look-up failed");
                InferError::internal(format!("the look-up in {tag} failed: {error}"))
            })?;
        }
        Ok(rows)
    }
}
