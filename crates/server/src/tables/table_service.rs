//! The tables that are served, by name.

use std::sync::Arc;

use terrace_embedding::{ParameterServer, ServedTable, TableName};

use crate::api_error::{ApiError, ApiResult};

/// Without a server there are no tables.
#[derive(Default)]
pub struct TableService {
    server: Option<Arc<ParameterServer>>,
}

/// A table as a request has named it.
pub struct FoundTable {
    pub server: Arc<ParameterServer>,
    pub table: Arc<ServedTable>,
    pub model: String,
    /// `MODEL.TABLE`
    pub name: String,
}

/// Names that an error lists.
const NAMES_MOST: usize = 20;

impl TableService {
    pub fn new(server: Option<Arc<ParameterServer>>) -> Self {
        TableService { server }
    }

    pub fn server(&self) -> Option<&Arc<ParameterServer>> {
        self.server.as_ref()
    }

    /// Whether updates are read, where there are any.
    pub fn is_running(&self) -> bool {
        let consumers = self.server.iter().flat_map(|server| server.consumers());
        consumers.into_iter().all(|(_, counters)| counters.is_running)
    }

    /// `table` is that of the path, `model` that of the body.
    pub fn find(&self, table: &str, model: Option<&str>) -> ApiResult<FoundTable> {
        let full = match (table.split_once('.'), model) {
            (Some((named, _)), Some(model)) if named != model => {
                let message = format!(
                    "model is {model:?}, and the path names a table of {named:?}; give one of them"
                );
                return Err(ApiError::invalid("model", message));
            }
            (None, Some(model)) => format!("{model}.{table}"),
            _ => table.to_owned(),
        };
        let Some(server) = &self.server else {
            return Err(ApiError::unknown_table(&full, "none; start the server with --ps FILE"));
        };
        let found = server.table(&full).ok_or_else(|| unknown(server, &full))?;
        let is_meant = |name: &TableName| full_name(name) == full || name.table == full;
        let mut names = server.names().filter(|(_, table)| Arc::ptr_eq(table, found));
        let (name, table) = names.find(|(name, _)| is_meant(name)).expect("it was found by name");
        Ok(FoundTable {
            server: Arc::clone(server),
            table: Arc::clone(table),
            model: name.model.clone(),
            name: full_name(name),
        })
    }
}

pub fn full_name(name: &TableName) -> String {
    format!("{}.{}", name.model, name.table)
}

fn unknown(server: &ParameterServer, wanted: &str) -> ApiError {
    let of_models = server.names().filter(|(name, _)| name.table == wanted);
    let of_models: Vec<String> = of_models.map(|(name, _)| full_name(name)).collect();
    if !of_models.is_empty() {
        let message =
            format!("several models have a table {wanted:?}; name one: {}", listed(&of_models));
        return ApiError::invalid("table", message);
    }
    let all: Vec<String> = server.names().map(|(name, _)| full_name(name)).collect();
    ApiError::unknown_table(wanted, &listed(&all))
}

fn listed(names: &[String]) -> String {
    let first = names[..names.len().min(NAMES_MOST)].join(", ");
    match names.len().checked_sub(NAMES_MOST).filter(|more| *more > 0) {
        Some(more) => format!("{first} and {more} more"),
        None => first,
    }
}
