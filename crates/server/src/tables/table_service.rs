//! The tables that are served, by name.

use std::sync::{Arc, PoisonError, RwLock};

use terrace_embedding::{NamedTable, ParameterServer, ServedSets, ServedTable, TableName};

use crate::api_error::{ApiError, ApiResult};

/// Sets of tables come and go with their models: whoever loads these has a clone, which is the same
/// service. A name is that of the newest set that has it.
#[derive(Clone, Default)]
pub struct TableService {
    /// The oldest first.
    sets: Arc<RwLock<Vec<Arc<ParameterServer>>>>,
}

/// A set of tables that is served until this is dropped.
pub struct ServedSet {
    service: TableService,
    set: Arc<ParameterServer>,
}

impl ServedSet {
    pub fn set(&self) -> &Arc<ParameterServer> {
        &self.set
    }
}

impl Drop for ServedSet {
    fn drop(&mut self) {
        self.service.remove(&self.set);
    }
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
    pub fn new(set: Option<Arc<ParameterServer>>) -> Self {
        TableService { sets: Arc::new(RwLock::new(set.into_iter().collect())) }
    }

    /// Its names are found here, before those of others, for as long as somebody has what this
    /// gives; requests under way go on with it.
    pub fn serve(&self, set: Arc<ParameterServer>) -> ServedSet {
        self.sets.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&set));
        ServedSet { service: self.clone(), set }
    }

    fn remove(&self, set: &Arc<ParameterServer>) {
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        let place = sets.iter().position(|other| Arc::ptr_eq(other, set));
        let removed = place.map(|place| sets.remove(place));
        // Whoever is the last to have it waits for its threads.
        drop(sets);
        drop(removed);
    }

    /// Those that are served now, the oldest first.
    pub fn sets(&self) -> Vec<Arc<ParameterServer>> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn is_empty(&self) -> bool {
        self.sets.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether updates are read, where there are any.
    pub fn is_running(&self) -> bool {
        let sets = self.sets();
        ServedSets(&sets).consumers().into_iter().all(|(_, counters)| counters.is_running)
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
        let sets = self.sets();
        if sets.is_empty() {
            return Err(ApiError::unknown_table(&full, "none; start the server with --ps FILE"));
        }
        let names = ServedSets(&sets).names();
        let is_meant = |it: &&NamedTable<'_>| full_name(it.name) == full || it.name.table == full;
        let meant: Vec<&NamedTable<'_>> = names.iter().filter(is_meant).collect();
        let is_one = meant.iter().all(|it| Arc::ptr_eq(it.table, meant[0].table));
        let Some(NamedTable { name, set, table }) = meant.first().filter(|_| is_one) else {
            return Err(unknown(&names, &full));
        };
        Ok(FoundTable {
            server: Arc::clone(set),
            table: Arc::clone(table),
            model: name.model.clone(),
            name: full_name(name),
        })
    }
}

pub fn full_name(name: &TableName) -> String {
    format!("{}.{}", name.model, name.table)
}

fn unknown(names: &[NamedTable<'_>], wanted: &str) -> ApiError {
    let of_models = names.iter().filter(|it| it.name.table == wanted);
    let of_models: Vec<String> = of_models.map(|it| full_name(it.name)).collect();
    if !of_models.is_empty() {
        let message =
            format!("several models have a table {wanted:?}; name one: {}", listed(&of_models));
        return ApiError::invalid("table", message);
    }
    let all: Vec<String> = names.iter().map(|it| full_name(it.name)).collect();
    ApiError::unknown_table(wanted, &listed(&all))
}

fn listed(names: &[String]) -> String {
    let first = names[..names.len().min(NAMES_MOST)].join(", ");
    match names.len().checked_sub(NAMES_MOST).filter(|more| *more > 0) {
        Some(more) => format!("{first} and {more} more"),
        None => first,
    }
}
