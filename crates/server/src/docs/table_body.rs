//! What the routes of tables take.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"keys": [1, 2, 1]}))]
pub struct TableKeysBody {
    /// At most 65,536; they may repeat. Of a table whose keys have 32 bits 0 to 4,294,967,295.
    keys: Vec<i64>,
    /// The model that the table is of, where the path has the table's own name alone.
    model: Option<String>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(example = json!({"keys": [1, 2, 1], "encoding_format": "base64"}))]
pub struct TableLookupBody {
    #[serde(flatten)]
    keys: TableKeysBody,
    /// `float` (the default): lists of numbers. `base64`: all rows as little-endian 32-bit floats.
    encoding_format: Option<String>,
}
