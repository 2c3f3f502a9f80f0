//! Sequences as SASRec and BERT4Rec publish them: `user item` on each line, in the order of time.

use std::path::Path;

use super::Features;
use super::log_source::LogSource;
use crate::log::{Delimiter, LogFiles, Role};
use crate::output::{ListColumn, ListOf};

pub const FEATURES: Features = Features { context: &[], item: "item_id", action: None, time: None };

const COLUMNS: [(&str, Role); 2] = [("user", Role::User), ("item", Role::Item)];
const LISTS: [ListColumn; 1] = [ListColumn { name: "item_id", of: ListOf::Item }];

pub fn source(file: &Path) -> LogSource {
    LogSource {
        logs: LogFiles {
            paths: vec![file.to_owned()],
            delimiter: Delimiter::Byte(b' '),
            columns: &COLUMNS,
            has_header: false,
        },
        periods: vec![0],
        joins_files: false,
        users: None,
        lists: &LISTS,
        inference: None,
    }
}
