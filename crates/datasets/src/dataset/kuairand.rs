//! KuaiRand (<https://kuairand.com>): Pure, 1K and 27K.

use super::log_source::{InferenceColumns, LogSource, UserColumns, UserSource};
use super::{DataFolder, Dataset, Features};
use crate::dataset_error::DatasetError;
use crate::log::{Delimiter, LogFiles, Role};
use crate::output::{ListColumn, ListOf};
use crate::users::TableForm;

pub const FEATURES: Features = Features {
    context: &[
        "user_id",
        "user_active_degree",
        "follow_user_num_range",
        "fans_user_num_range",
        "friend_user_num_range",
        "register_days_range",
    ],
    item: "video_id",
    action: Some("action_weights"),
    time: Some("time_ms"),
};

/// Times are in milliseconds.
pub const TICKS_PER_SECOND: i64 = 1000;

const LOG_COLUMNS: [(&str, Role); 14] = [
    ("user_id", Role::User),
    ("video_id", Role::Item),
    ("date", Role::Date),
    ("time_ms", Role::Time),
    ("is_click", Role::Feedback(0)),
    ("is_like", Role::Feedback(1)),
    ("is_follow", Role::Feedback(2)),
    ("is_comment", Role::Feedback(3)),
    ("is_forward", Role::Feedback(4)),
    ("is_hate", Role::Feedback(5)),
    ("long_view", Role::Feedback(6)),
    ("is_profile_enter", Role::Feedback(7)),
    ("play_time_ms", Role::PlayMs),
    ("duration_ms", Role::DurationMs),
];

const LISTS: [ListColumn; 5] = [
    ListColumn { name: "video_id", of: ListOf::Item },
    ListColumn { name: "time_ms", of: ListOf::Time },
    ListColumn { name: "action_weights", of: ListOf::Action },
    ListColumn { name: "play_time_ms", of: ListOf::PlayMs },
    ListColumn { name: "duration_ms", of: ListOf::DurationMs },
];

/// The standard logs, each of which may have parts.
const PERIODS: [&str; 2] = ["log_standard_4_08_to_4_21", "log_standard_4_22_to_5_08"];

/// `size` is what the names of files end with.
pub fn source(
    dataset: &Dataset,
    size: &str,
    folder: &DataFolder,
) -> Result<LogSource, DatasetError> {
    let missing = |pattern: String| DatasetError::MissingFile {
        dataset: dataset.to_string(),
        pattern,
        folder: folder.path.clone(),
        remedy: format!(
            "unpack https://zenodo.org/records/10439422/files/{}.tar.gz in the dataset path",
            dataset.archive_folder().0
        ),
    };
    let (mut paths, mut periods) = (Vec::new(), Vec::new());
    for (period, log) in PERIODS.into_iter().enumerate() {
        let prefix = format!("{log}_{size}");
        let parts = folder.files(&prefix, ".csv");
        if parts.is_empty() {
            return Err(missing(format!("{prefix}*.csv")));
        }
        periods.extend(parts.iter().map(|_| period));
        paths.extend(parts);
    }
    if LogFiles::MOST < paths.len() {
        return Err(DatasetError::TooManyFiles {
            dataset: dataset.to_string(),
            folder: folder.path.clone(),
            found: paths.len(),
            most: LogFiles::MOST,
        });
    }
    let users = format!("user_features_{size}.csv");
    let path = folder.path.join(&users);
    if !path.is_file() {
        return Err(missing(users));
    }
    Ok(LogSource {
        logs: LogFiles {
            paths,
            delimiter: Delimiter::Byte(b','),
            columns: &LOG_COLUMNS,
            has_header: true,
        },
        periods,
        joins_files: true,
        users: Some(UserSource {
            path,
            form: TableForm::Csv { delimiter: b',', user: "user_id" },
            columns: UserColumns::All { coded: &FEATURES.context[1..] },
        }),
        lists: &LISTS,
        inference: Some(InferenceColumns {
            lists: &LISTS,
            by_date: true,
            ticks_per_second: TICKS_PER_SECOND,
        }),
    })
}
