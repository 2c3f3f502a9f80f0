//! Features whose rows a parameter server has.
//!
//! A model that ranks asks it for the rows of each request, so that updates are in the next one and
//! tables may be larger than memory. A model that retrieves compares with every item, so its tables
//! are read whole, at the start and at each reload.

use std::sync::{Arc, Weak};

use sha2::{Digest, Sha256};
use terrace_device::Buffer;
use terrace_embedding::{
    EmbeddingTable, LookupStats, MissingRows, ParameterServer, ServedTable, TableId,
};
use terrace_kernels::{Matrix, WeightFormat};
use terrace_model::hstu::HstuConfig;

use super::job_rows::RowDims;
use crate::error::Error;

pub struct ServedFeatures {
    /// Who serves tables ends them, whatever is still done with the model.
    server: Weak<ParameterServer>,
    /// By [`TableId`].
    features: Vec<ServedFeature>,
    dims: RowDims,
}

struct ServedFeature {
    name: String,
    /// What the server calls its table.
    table: String,
}

/// The tables are served no longer.
#[derive(Debug)]
pub struct TablesEnded;

/// Rows that are read at once.
const SCANNED_ROWS: usize = 16 << 10;

impl ServedFeatures {
    /// The tables of a model of that name; `None` where the server has none.
    pub fn find(
        server: &Arc<ParameterServer>,
        model: &str,
        config: &HstuConfig,
    ) -> Result<Option<Self>, Error> {
        let known: Vec<&str> = server
            .names()
            .filter(|(name, _)| name.model == model)
            .map(|(name, _)| name.table.as_str())
            .collect();
        if known.is_empty() {
            return Ok(None);
        }
        let mut features = Vec::new();
        for (name, wanted) in config.tables() {
            let called = format!("{model}.{name}");
            let table = server.table(&called).ok_or_else(|| {
                let known = known.join(", ");
                Error::Features(format!(
                    "model {model:?} has no table {name:?} there, which its features need; it has \
                     {known}: list it with the others, or give the model another name there"
                ))
            })?;
            let found = table.spec().dim;
            if found != wanted {
                return Err(Error::Features(format!(
                    "rows of {model}.{name} have {found} numbers, and the model takes {wanted}"
                )));
            }
            features.push(ServedFeature { name: name.to_owned(), table: called });
        }
        let hidden = config.hidden_size;
        let items = config.item_embedding_dim.unwrap_or(hidden);
        let context =
            config.has_streams().then(|| config.contextual_embedding_dim.unwrap_or(hidden));
        let dims = RowDims { items, context };
        Ok(Some(ServedFeatures { server: Arc::downgrade(server), features, dims }))
    }

    pub fn dims(&self) -> RowDims {
        self.dims
    }

    pub fn table(&self, name: &str) -> Option<TableId> {
        self.features.iter().position(|feature| feature.name == name).map(TableId)
    }

    pub fn name(&self, table: TableId) -> &str {
        &self.features[table.0].name
    }

    /// The rows of ids, never one that stands in for another.
    pub fn look_up(
        &self,
        table: TableId,
        ids: &[i64],
    ) -> Result<Result<(Vec<f32>, LookupStats), terrace_embedding::Error>, TablesEnded> {
        let server = self.server.upgrade().ok_or(TablesEnded)?;
        let table = self.features[table.0].find(&server)?;
        let mut rows = vec![0.0; ids.len() * table.spec().dim];
        let stats = server.look_up(table, ids, MissingRows::Fetched, &mut rows);
        Ok(stats.map(|stats| (rows, stats)))
    }

    /// What tells these tables from others: the versions of the files that they were loaded from.
    /// Updates of single rows do not change it.
    pub fn identity(&self) -> Result<[u8; 32], Error> {
        let server = self.server.upgrade().ok_or(TablesEnded)?;
        let mut hash = Sha256::new_with_prefix(b"terrace served tables 1");
        for feature in &self.features {
            let version = server.version(feature.find(&server)?);
            hash.update(format!("\0{}\0{version}\0", feature.name));
        }
        Ok(hash.finalize().into())
    }

    /// All rows of all tables, and what tells them from others.
    pub fn read_whole(&self) -> Result<(Vec<EmbeddingTable>, [u8; 32]), Error> {
        let server = self.server.upgrade().ok_or(TablesEnded)?;
        let mut hash = Sha256::new_with_prefix(b"terrace served rows 1");
        let mut read =
            |feature: &ServedFeature| feature.read_whole(feature.find(&server)?, &mut hash);
        let tables = self.features.iter().map(&mut read).collect::<Result<_, _>>()?;
        Ok((tables, hash.finalize().into()))
    }
}

impl From<TablesEnded> for Error {
    fn from(TablesEnded: TablesEnded) -> Self {
        Error::Features("they are served no longer".to_owned())
    }
}

impl ServedFeature {
    fn find<'a>(&self, server: &'a ParameterServer) -> Result<&'a Arc<ServedTable>, TablesEnded> {
        server.table(&self.table).ok_or(TablesEnded)
    }

    /// Its rows in the order of their keys, from the level that has the most.
    fn read_whole(&self, table: &ServedTable, hash: &mut Sha256) -> Result<EmbeddingTable, Error> {
        let dim = table.spec().dim;
        let level = table.levels().levels().last().ok_or_else(|| {
            let tag = table.spec().tag.as_str();
            Error::Features(format!(
                "{tag} has no level that could be read whole, which a model that retrieves needs; \
                 give it one in memory or on disk"
            ))
        })?;
        let (mut read_keys, mut read_rows) = (Vec::<i64>::new(), Vec::<f32>::new());
        let scanned = level.store().scan(SCANNED_ROWS, &mut |keys, rows| {
            read_keys.extend(keys);
            read_rows.extend(rows);
            Ok(())
        });
        scanned.map_err(|error| Error::Features(error.to_string()))?;
        let mut order: Vec<usize> = (0..read_keys.len()).collect();
        order.sort_unstable_by_key(|index| read_keys[*index]);
        let mut buffer = Buffer::zeroed(4 * dim * order.len(), "rows of a table")?;
        let places = buffer.bytes_mut().chunks_exact_mut(4 * dim);
        hash.update(format!("\0{}\0{}\0", self.name, order.len()));
        for (place, index) in places.zip(&order) {
            let numbers = place.as_chunks_mut().0.iter_mut().zip(&read_rows[index * dim..]);
            numbers.for_each(|(bytes, number)| *bytes = number.to_le_bytes());
            hash.update(read_keys[*index].to_le_bytes());
            hash.update(&*place);
        }
        let keys: Vec<i64> = order.iter().map(|index| read_keys[*index]).collect();
        let matrix = Matrix::new(WeightFormat::F32, keys.len(), dim, Arc::new(buffer));
        let default_row = vec![table.spec().default_value; dim];
        Ok(EmbeddingTable::new(&self.name, matrix, Some(&keys), Some(default_row))?)
    }
}
