//! What a data set says about its users: a table with a row for each.

mod cell_text;
mod raw_table;
mod user_table;

pub use raw_table::{RawTable, TableForm, of_csv};
pub use user_table::{UserColumn, UserContent, UserTable};
