//! Memory of ids: embedding rows of items, actions and features, by table and id.
//!
//! A [`TableSet`] has the tables of a model where its ops compute. An id that a table has not got
//! takes the table's default row, and the look-up says so: whoever asks decides whether that is an
//! error.
#![forbid(unsafe_code)]

mod embedding_table;
mod error;
mod key_index;
mod table_set;

pub use embedding_table::EmbeddingTable;
pub use error::Error;
pub use key_index::KeyIndex;
pub use table_set::{FoundRow, Residence, TableId, TableIndex, TableSet};
