//! Reads a `config.pbtxt`: a model's configuration in protobuf's text format.

use miette::Diagnostic;
use prost_reflect::{DynamicMessage, text_format::ParseError};

use super::config_scan::{ScannedText, scan};
use super::descriptors::model_config_descriptor;
use super::messages::ModelConfig;

/// The largest that is read; real ones have a few KiB.
const BYTES_MOST: usize = 1 << 20;

/// What is wrong is said with its line and column. A field that is not known is an error.
pub fn read_model_config(text: &str) -> Result<ModelConfig, String> {
    if text.len() > BYTES_MOST {
        let bytes = text.len();
        return Err(format!("the configuration has {bytes} bytes, the limit is {BYTES_MOST}"));
    }
    let at = |offset: usize, why: &str| {
        let (line, column) = position(text, offset);
        format!("line {line}, column {column}: {why}")
    };
    let scanned = scan(text).map_err(|error| at(error.offset, &error.why))?;
    let message = DynamicMessage::parse_text_format(model_config_descriptor(), scanned.text())
        .map_err(|error| at(offset_of(&error, &scanned), &error.to_string()))?;
    message.transcode_to().map_err(|error| error.to_string())
}

/// Where the error is; one without a place is at the end.
fn offset_of(error: &ParseError, scanned: &ScannedText<'_>) -> usize {
    let label = error.labels().and_then(|mut labels| labels.next());
    let offset = label.map_or(scanned.text().len(), |label| label.offset());
    scanned.original_offset(offset)
}

/// Line and column of a byte, counted from one.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests;
