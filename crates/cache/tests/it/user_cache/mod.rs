//! Users and their pages: against the traces of the original's manager, and against plain books.

mod bytes_model;
mod plain_policy;
mod properties;
mod spans;
mod traces;
