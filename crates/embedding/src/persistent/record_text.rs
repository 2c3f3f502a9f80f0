//! Records of tables as databases keep them: JSON.

use serde_json::Value;

use crate::table_record::{TABLE_FORMAT, TableRecord};

pub fn write_record(record: &TableRecord) -> Vec<u8> {
    serde_json::to_vec(record).expect("a record is numbers and text")
}

/// Fails with what is wrong with it, in words.
pub fn read_record(bytes: &[u8]) -> Result<TableRecord, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    // First, as those of newer formats may have other fields.
    let format = value.get("format").and_then(Value::as_u64).unwrap_or(0);
    match format {
        0 => Err("it has no format".to_owned()),
        1.. if format > u64::from(TABLE_FORMAT) => Err(format!(
            "it has format {format}, and this program knows {TABLE_FORMAT}; use a newer one"
        )),
        _ => serde_json::from_value(value).map_err(|error| error.to_string()),
    }
}

/// Of a table that another program filled, by the lengths of its first key and value.
pub fn record_of_entry(key_bytes: usize, value_bytes: usize) -> Result<TableRecord, String> {
    let number_bytes = size_of::<f32>();
    let is_table =
        [4, 8].contains(&key_bytes) && value_bytes > 0 && value_bytes.is_multiple_of(number_bytes);
    if !is_table {
        return Err(format!(
            "its first key has {key_bytes} bytes and its value {value_bytes}; keys have 4 or 8, \
             rows a multiple of {number_bytes}"
        ));
    }
    Ok(TableRecord {
        format: TABLE_FORMAT,
        dim: value_bytes / number_bytes,
        key_bytes,
        version: None,
        stamp: None,
        loaded_rows: 0,
        is_loaded: false,
        version_time_ms: 0,
        is_replayed: false,
        replayed_topics: Vec::new(),
        served: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> TableRecord {
        let mut record = record_of_entry(8, 64).unwrap();
        (record.version, record.loaded_rows) = (Some("v 7".to_owned()), 1 << 40);
        record
    }

    #[test]
    fn records_come_back() {
        assert_eq!(read_record(&write_record(&record())), Ok(record()));
    }

    #[test]
    fn records_of_earlier_programs_are_upgraded() {
        let record = TableRecord { is_replayed: true, served: 3, ..record() };
        let check = |missing: &str, want: TableRecord| {
            let mut written: Value = serde_json::from_slice(&write_record(&record)).unwrap();
            written.as_object_mut().unwrap().remove(missing).unwrap();
            assert_eq!(read_record(written.to_string().as_bytes()), Ok(want));
        };
        // So the updates since its files are read again.
        check("is_replayed", TableRecord { is_replayed: false, ..record.clone() });
        check("replayed_topics", record.clone());
        check("served", TableRecord { served: 0, ..record.clone() });
    }

    #[test]
    fn other_records_are_refused_with_the_reason() {
        let check = |text: &str, want: &str| {
            let error = read_record(text.as_bytes()).unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        };
        check(r#"{"format": 2, "rows": "elsewhere"}"#, "it has format 2, and this program knows 1");
        check(r#"{"format": 1}"#, "missing field");
        check(r#"{"format": 0, "dim": 4}"#, "it has no format");
        check("{}", "it has no format");
        check("[1", "EOF");
    }

    #[test]
    fn a_table_of_another_program_is_known_by_its_first_row() {
        let shape = |key, value| record_of_entry(key, value).map(|it| (it.key_bytes, it.dim));
        assert_eq!(shape(8, 64), Ok((8, 16)));
        assert_eq!(shape(4, 4), Ok((4, 1)));
        for (key, value) in [(5, 64), (0, 64), (8, 0), (8, 63)] {
            let error = shape(key, value).unwrap_err();
            assert!(error.contains(&format!("{key} bytes and its value {value}")), "{error}");
        }
    }
}
