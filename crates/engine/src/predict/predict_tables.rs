//! The tables that a model's embedding layers look up in.

use std::sync::Arc;

use terrace_embedding::{ModelTables, ParameterServer, RequestTable, ServedTable};
use terrace_model::ctr::{CtrInputs, CtrTable};

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
        inputs: &CtrInputs,
    ) -> Result<Self, Error> {
        let names = model.request_tables();
        let layers = &inputs.tables;
        if names.len() != layers.len() {
            let (tables, layers) = (names.len(), layers.len());
            return Err(Error::Predict(format!(
                "the network of {} has {layers} embedding layers, and its entry in the parameter \
                 server's configuration {tables} tables; each layer has one",
                model.name
            )));
        }
        let find = |(request, layer): (&RequestTable<'_>, &CtrTable)| {
            let full = format!("{}.{}", model.name, request.name);
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
