//! The tables that a model's embedding layers look up in.

use std::sync::Arc;

use terrace_embedding::{ModelTables, ParameterServer, ServedTable};
use terrace_model::ctr::{CtrNetwork, CtrTable};

use crate::error::Error;

/// In the order of the network's embedding layers.
#[derive(Clone)]
pub struct PredictTables {
    pub server: Arc<ParameterServer>,
    pub tables: Vec<Arc<ServedTable>>,
}

impl PredictTables {
    /// The first table of a model is its first embedding layer's, and so on.
    pub fn find(
        server: &Arc<ParameterServer>,
        model: &ModelTables,
        network: &CtrNetwork,
    ) -> Result<Self, Error> {
        let names = table_names(model);
        let layers = &network.inputs().tables;
        if names.len() != layers.len() {
            let (tables, layers) = (names.len(), layers.len());
            return Err(Error::Predict(format!(
                "the network of {} has {layers} embedding layers, and its entry in the parameter \
                 server's configuration {tables} tables; each layer has one",
                model.name
            )));
        }
        let find = |(name, layer): (&String, &CtrTable)| {
            let full = format!("{}.{name}", model.name);
            let table = server.table(&full).ok_or_else(|| {
                Error::Predict(format!("the parameter server has no table {full}"))
            })?;
            let (dim, wanted) = (table.spec().dim, layer.dim);
            if dim != wanted {
                return Err(Error::Predict(format!(
                    "rows of table {full} have {dim} numbers; embedding layer {:?} has {wanted}",
                    layer.name
                )));
            }
            Ok(Arc::clone(table))
        };
        let tables = names.iter().zip(layers).map(find).collect::<Result<_, Error>>()?;
        Ok(PredictTables { server: Arc::clone(server), tables })
    }
}

/// As requests know them, also where the server has fused some.
fn table_names(model: &ModelTables) -> Vec<String> {
    let mut names: Vec<(usize, &String)> = Vec::new();
    for (position, table) in model.tables.iter().enumerate() {
        match table.fused.is_empty() {
            true => names.push((position, &table.name)),
            false => names.extend(table.fused.iter().map(|it| (it.position, &it.name))),
        }
    }
    names.sort_by_key(|(position, _)| *position);
    names.into_iter().map(|(_, name)| name.clone()).collect()
}
