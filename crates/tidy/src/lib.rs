//! The rules of this repository that a compiler does not hold: sizes, layering, words.
//!
//! Each rule is a function from a [`Tree`] to its [`Finding`]s; the one test binary runs all of
//! them over this repository. A rule reads text, never types: it is simple enough to be trusted,
//! and a rule that needs more belongs to clippy.

#![forbid(unsafe_code)]

mod circles;
mod code_text;
mod deciding_files;
mod documents;
mod finding;
mod layering;
mod libraries;
mod manifest;
mod measured_numbers;
mod repository;
mod retired_words;
mod sizes;
mod tree;
mod use_paths;
mod words;

pub use circles::no_circles;
pub use code_text::code_only;
pub use deciding_files::{deciding_files_exist, deciding_files_have_no_effects};
pub use documents::documents_name_real_files;
pub use finding::Finding;
pub use layering::{layers_point_down, unsafe_in_its_cell};
pub use libraries::libraries_in_their_crates;
pub use measured_numbers::readme_numbers_stand_in_benches;
pub use repository::{file_bytes, repository_bytes};
pub use retired_words::retired_words;
pub use sizes::{file_lines, function_lines, line_columns, median_lines};
pub use tree::{SourceFile, Tree};
pub use words::{module_comments, type_names, unfinished_work};
