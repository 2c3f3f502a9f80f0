//! The reply to a look-up, whose rows may be many megabytes.
//!
//! It is written while it is sent, some rows at a time: what is held for it are the rows, and they
//! are given back when the client has the last of them or has left.

use std::convert::Infallible;
use std::iter;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use terrace_embedding::LookupStats;
use utoipa::ToSchema;

use crate::bounded_work::HeldMemory;
use crate::float_encoding::{FloatEncoding, base64_of};

/// What [`row_reply`] writes.
#[derive(Debug, PartialEq, Deserialize, Serialize, ToSchema)]
pub struct LookedUpRows {
    #[serde(flatten)]
    head: RowsHead,
    rows: EncodedRows,
}

#[derive(Debug, PartialEq, Deserialize, Serialize, ToSchema)]
pub struct RowsHead {
    /// The table, as `MODEL.TABLE`.
    pub table: String,
    /// Numbers of a row.
    pub dim: usize,
    pub lookup: LookupOutcome,
}

/// In the order of the keys.
#[derive(Debug, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
enum EncodedRows {
    /// A list of numbers for each key. What JSON has no number for, such as NaN, is `null`.
    Numbers(Vec<Vec<Option<f32>>>),
    /// All rows one after the other, as little-endian 32-bit floats, in base64.
    Base64(String),
}

/// Where the rows came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct LookupOutcome {
    /// Keys of the request.
    keys: usize,
    /// Different ones among them; all that follows counts these.
    unique_keys: usize,
    /// Rows that the hot cache had.
    cache_hits: usize,
    /// Rows that no level has: they are the table's default value.
    default_rows: usize,
    /// Rows that are the default value for now: most rows were in the hot cache, so nobody waited
    /// for these, and they are being fetched (`hit_rate_threshold`).
    deferred_rows: usize,
    /// Of `default_rows`, how many a level that failed may have.
    unanswered_rows: usize,
}

impl From<LookupStats> for LookupOutcome {
    fn from(stats: LookupStats) -> Self {
        let LookupStats { keys, unique, hits, defaults, deferred, unanswered } = stats;
        LookupOutcome {
            keys,
            unique_keys: unique,
            cache_hits: hits,
            default_rows: defaults,
            deferred_rows: deferred,
            unanswered_rows: unanswered,
        }
    }
}

/// Numbers written at a time; a multiple of three, so that base64 can be cut there.
const NUMBERS_AT_ONCE: usize = 3 << 10;

/// rows: `[keys, dim]`
pub fn row_reply(
    head: &RowsHead,
    rows: Vec<f32>,
    encoding: FloatEncoding,
    held: HeldMemory,
) -> Response {
    let dim = head.dim;
    let text = serde_json::to_string(head).expect("names and counts always serialise");
    let text = text.strip_suffix('}').expect("an object");
    let (open, close) = match encoding {
        FloatEncoding::Float => ('[', ']'),
        FloatEncoding::Base64 => ('"', '"'),
    };
    let start = format!("{text},\"rows\":{open}");
    let mut written = 0;
    let segments = iter::from_fn(move || {
        let _until_the_end = &held;
        let left = &rows[written..];
        let count = match encoding {
            FloatEncoding::Float => (NUMBERS_AT_ONCE / dim).max(1) * dim,
            FloatEncoding::Base64 => NUMBERS_AT_ONCE,
        };
        let next = &left[..count.min(left.len())];
        if next.is_empty() {
            return None;
        }
        let comma = if written == 0 { "" } else { "," };
        written += next.len();
        Some(match encoding {
            FloatEncoding::Float => format!("{comma}{}", lists_of(next, dim)),
            FloatEncoding::Base64 => base64_of(next),
        })
    });
    let all = iter::once(start).chain(segments).chain(iter::once(format!("{close}}}")));
    let body = Body::from_stream(stream::iter(all.map(Ok::<_, Infallible>)));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Lists of numbers, with commas between them.
fn lists_of(rows: &[f32], dim: usize) -> String {
    let rows: Vec<&[f32]> = rows.chunks_exact(dim).collect();
    let text = serde_json::to_string(&rows).expect("numbers always serialise");
    text[1..text.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use http_body_util::BodyExt;

    use super::*;
    use crate::bounded_work::WorkMemory;

    async fn read(rows: &[f32], dim: usize, encoding: FloatEncoding) -> EncodedRows {
        let lookup = LookupStats::default().into();
        let head = RowsHead { table: "a \"b\"".to_owned(), dim, lookup };
        let held = WorkMemory::new().for_reply(1).await.expect("all is free");
        let body = row_reply(&head, rows.to_vec(), encoding, held).into_body();
        let body = body.collect().await.expect("it never fails").to_bytes();
        let reply: LookedUpRows =
            serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {body:?}"));
        assert_eq!(reply.head, head);
        reply.rows
    }

    #[tokio::test]
    async fn rows_of_any_size_are_whole() {
        for (count, dim) in [(0, 4), (1, 1), (1, 5_000), (1024, 3), (1025, 3), (3_000, 7)] {
            let numbers = (0..count * dim).map(|index| index as f32 / 8.0);
            let rows: Vec<f32> = numbers.collect();
            let lists = rows.chunks(dim).map(|row| row.iter().copied().map(Some).collect());
            let want = EncodedRows::Numbers(lists.collect());
            assert_eq!(read(&rows, dim, FloatEncoding::Float).await, want);
            let EncodedRows::Base64(text) = read(&rows, dim, FloatEncoding::Base64).await else {
                panic!("a text");
            };
            let bytes: Vec<u8> = rows.iter().flat_map(|number| number.to_le_bytes()).collect();
            assert_eq!(BASE64_STANDARD.decode(text).expect("base64"), bytes);
        }
    }

    #[tokio::test]
    async fn what_json_has_no_number_for_is_null() {
        let rows = [f32::NAN, 1.0, f32::INFINITY, f32::MIN_POSITIVE];
        let want = vec![vec![None, Some(1.0)], vec![None, Some(f32::MIN_POSITIVE)]];
        assert_eq!(read(&rows, 2, FloatEncoding::Float).await, EncodedRows::Numbers(want));
    }
}
