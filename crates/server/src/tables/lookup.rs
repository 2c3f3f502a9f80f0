//! `POST /v1/tables/{table}/lookup`

use terrace_embedding::MissingRows;

use super::row_reply::{LookedUpRows, RowsHead, row_reply};
use super::table_keys::TableKeys;
use super::table_request::{KeysOfTable, TableRequest};
use super::table_service::FoundTable;
use crate::api_error::{ApiError, ApiResult, Reply};
use crate::bounded_work::{off_thread, within_limits};
use crate::docs::{Refusals, TableLookupBody};
use crate::float_encoding::FloatEncoding;

/// Of one reply: rows of 64 numbers for as many keys as a request may have.
const NUMBERS_MOST: usize = 64 * TableKeys::MOST;

/// The rows of keys in a table, in the order of the keys.
///
/// A key that no level has gets the table's default value, and `lookup` says how many did. A level
/// that fails or takes too long is passed by.
#[utoipa::path(post, path = "/v1/tables/{table}/lookup", tag = "Tables",
    operation_id = "lookUpRows", request_body = TableLookupBody,
    params(("table" = String, Path,
        description = "`MODEL.TABLE`, or the table's own name where only one model has it")),
    responses((status = 200, description = "the rows", body = LookedUpRows), Refusals))]
pub async fn create(mut request: TableRequest) -> Reply {
    let encoding = FloatEncoding::take(&mut request.fields)?;
    let KeysOfTable { state, log, keys, found } = request.finish()?;
    let FoundTable { server, table, name, .. } = found;
    let dim = table.spec().dim;
    let numbers = check_numbers(keys.len(), dim)?;
    // The rows are there up to four times: of all keys, of different ones, fetched, and copied up.
    let held = state.memory.for_reply(numbers).await?;
    let looked_up = off_thread(move || {
        let mut rows = vec![0.0; numbers];
        let stats = server.look_up(&table, &keys, MissingRows::AsConfigured, &mut rows).map_err(
            |error| {
                tracing::error!(table = table.spec().tag.as_str(), %error, "a look-up failed");
                ApiError::internal(format!("the look-up failed: {error}"))
            },
        )?;
        // Held through the work, also when its client has left.
        Ok((rows, stats, held))
    });
    let (rows, stats, held) = within_limits(&state, &log, looked_up).await?;
    let head = RowsHead { table: name, dim, lookup: stats.into() };
    Ok(row_reply(&head, rows, encoding, held))
}

/// How many numbers a reply has.
fn check_numbers(keys: usize, dim: usize) -> ApiResult<usize> {
    match keys.checked_mul(dim).filter(|numbers| *numbers <= NUMBERS_MOST) {
        Some(numbers) => Ok(numbers),
        None => {
            let most = NUMBERS_MOST / dim;
            let message = format!(
                "{keys} rows of {dim} numbers are more than the {NUMBERS_MOST} numbers of a reply; \
                 ask for at most {most} keys at once"
            );
            Err(ApiError::invalid("keys", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_a_largest_size() {
        assert_eq!(check_numbers(TableKeys::MOST, 64), Ok(NUMBERS_MOST));
        assert_eq!(check_numbers(0, 1 << 40), Ok(0));
        let error = check_numbers(TableKeys::MOST, 128).unwrap_err();
        error.check_says("keys", "ask for at most 32768 keys at once");
        assert!(check_numbers(2, usize::MAX).is_err());
    }
}
