//! The keys of a request.

use serde_json::value::RawValue;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::{FieldValue, check_items};

/// At most [`TableKeys::MOST`], in the order of the request; they may repeat.
pub struct TableKeys(pub Vec<i64>);

impl TableKeys {
    pub const MOST: usize = 65_536;
}

impl FieldValue for TableKeys {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
        check_items(json, path, Self::MOST)?;
        serde_json::from_str(json.get()).map(TableKeys).map_err(|error| {
            let (column, least, most) = (error.column(), i64::MIN, i64::MAX);
            let message = format!(
                "{path} must be a list of whole numbers from {least} to {most}; character \
                 {column} is wrong"
            );
            ApiError::invalid(path, message)
        })
    }
}
