//! MovieLens (<https://grouplens.org/datasets/movielens>): 1M, 20M, and 100K, this also in the
//! atomic files of RecBole.

use std::path::PathBuf;

use super::log_source::{InferenceColumns, LogSource, UserColumns, UserSource};
use super::{DataFolder, Dataset, Features};
use crate::dataset_error::DatasetError;
use crate::log::{Delimiter, LogFiles, RatingCode, Role};
use crate::output::{ListColumn, ListOf};
use crate::users::{TableForm, UserColumn, UserContent};

pub const FEATURES: Features = Features {
    context: &["user_id"],
    item: "movie_id",
    action: Some("rating"),
    time: Some("unix_timestamp"),
};
pub const FEATURES_WITH_USERS: Features =
    Features { context: &["user_id", "sex", "age_group", "occupation", "zip_code"], ..FEATURES };

const LISTS: [ListColumn; 3] = [
    ListColumn { name: "movie_id", of: ListOf::Item },
    ListColumn { name: "rating", of: ListOf::Action },
    ListColumn { name: "unix_timestamp", of: ListOf::Time },
];
/// Their order for inference is another.
const INFERENCE_LISTS: [ListColumn; 3] = [LISTS[0], LISTS[2], LISTS[1]];

const RATINGS_1M: [(&str, Role); 4] = [
    ("UserID", Role::User),
    ("MovieID", Role::Item),
    ("Rating", Role::Rating(RatingCode::Stars)),
    ("Timestamp", Role::Time),
];
const RATINGS_20M: [(&str, Role); 4] = [
    ("userId", Role::User),
    ("movieId", Role::Item),
    ("rating", Role::Rating(RatingCode::HalfStars)),
    ("timestamp", Role::Time),
];
/// Small as it is, its ratings are three tasks.
const RATINGS_100K: [(&str, Role); 4] = [
    ("user id", Role::User),
    ("item id", Role::Item),
    ("rating", Role::Rating(RatingCode::StarBits)),
    ("timestamp", Role::Time),
];
const RECBOLE_RATINGS: [(&str, Role); 4] = [
    ("user_id:token", Role::User),
    ("item_id:token", Role::Item),
    ("rating:float", Role::Rating(RatingCode::StarBits)),
    ("timestamp:float", Role::Time),
];

pub fn source_1m(folder: &DataFolder) -> Result<LogSource, DatasetError> {
    let logs = LogFiles {
        paths: vec![file(Dataset::MovieLens1m, folder, "ratings.dat")?],
        delimiter: Delimiter::TwoColons,
        columns: &RATINGS_1M,
        has_header: false,
    };
    let form = TableForm::Plain {
        delimiter: Delimiter::TwoColons,
        columns: &["UserID", "Gender", "Age", "Occupation", "Zip-code"],
    };
    let path = file(Dataset::MovieLens1m, folder, "users.dat")?;
    let sources = ["Gender", "Age", "Occupation", "Zip-code"];
    let columns = UserColumns::These(user_columns(sources, UserContent::Code));
    Ok(source(logs, Some(UserSource { path, form, columns })))
}

pub fn source_20m(folder: &DataFolder) -> Result<LogSource, DatasetError> {
    let logs = LogFiles {
        paths: vec![file(Dataset::MovieLens20m, folder, "ratings.csv")?],
        delimiter: Delimiter::Byte(b','),
        columns: &RATINGS_20M,
        has_header: true,
    };
    Ok(source(logs, None))
}

/// GroupLens' files, or RecBole's where those are not there.
pub fn source_100k(folder: &DataFolder) -> Result<LogSource, DatasetError> {
    let ages = UserContent::AgeGroupCode;
    let recbole = folder.path.join("ml-100k.inter");
    if recbole.is_file() && !folder.path.join("u.data").is_file() {
        let logs = LogFiles {
            paths: vec![recbole],
            delimiter: Delimiter::Byte(b'\t'),
            columns: &RECBOLE_RATINGS,
            has_header: true,
        };
        let path = file(Dataset::MovieLens100k, folder, "ml-100k.user")?;
        let form = TableForm::Csv { delimiter: b'\t', user: "user_id:token" };
        let sources = ["gender:token", "age:token", "occupation:token", "zip_code:token"];
        let columns = UserColumns::These(user_columns(sources, ages));
        return Ok(source(logs, Some(UserSource { path, form, columns })));
    }
    let logs = LogFiles {
        paths: vec![file(Dataset::MovieLens100k, folder, "u.data")?],
        delimiter: Delimiter::Byte(b'\t'),
        columns: &RATINGS_100K,
        has_header: false,
    };
    let form = TableForm::Plain {
        delimiter: Delimiter::Byte(b'|'),
        columns: &["user id", "age", "gender", "occupation", "zip code"],
    };
    let path = file(Dataset::MovieLens100k, folder, "u.user")?;
    let sources = ["gender", "age", "occupation", "zip code"];
    let columns = UserColumns::These(user_columns(sources, ages));
    Ok(source(logs, Some(UserSource { path, form, columns })))
}

fn source(logs: LogFiles, users: Option<UserSource>) -> LogSource {
    LogSource {
        logs,
        periods: vec![0],
        joins_files: false,
        users,
        lists: &LISTS,
        inference: Some(InferenceColumns {
            lists: &INFERENCE_LISTS,
            by_date: false,
            ticks_per_second: 1,
        }),
    }
}

/// Sex, age, occupation and zip code.
fn user_columns(sources: [&str; 4], age: UserContent) -> Vec<UserColumn> {
    let names = FEATURES_WITH_USERS.context[1..].iter();
    let contents = [UserContent::Code, age, UserContent::Code, UserContent::Code];
    let column = |((source, name), content): ((&str, &&str), UserContent)| UserColumn {
        source: source.to_owned(),
        name: (*name).to_owned(),
        content,
    };
    sources.into_iter().zip(names).zip(contents).map(column).collect()
}

fn file(dataset: Dataset, folder: &DataFolder, name: &str) -> Result<PathBuf, DatasetError> {
    let path = folder.path.join(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(DatasetError::MissingFile {
        pattern: name.to_owned(),
        folder: folder.path.clone(),
        remedy: format!(
            "unpack https://files.grouplens.org/datasets/movielens/{dataset}.zip in the dataset \
             path"
        ),
        dataset: dataset.to_string(),
    })
}
