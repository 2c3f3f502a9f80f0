//! What `TraceSetting` and `LogSettings` give; nothing can be set.

use std::collections::BTreeMap;

use crate::kserve::infer_error::InferError;
use crate::kserve::messages::log_settings_response::SettingValue as LogValue;
use crate::kserve::messages::log_settings_response::setting_value::ParameterChoice;
use crate::kserve::messages::trace_setting_response::SettingValue as TraceValue;
use crate::kserve::messages::{LogSettingsResponse, TraceSettingResponse};
use crate::kserve::settings::{LOG_FLAGS, TRACE_SETTINGS, fixed_log, fixed_trace};

pub fn trace_response<T>(given: &BTreeMap<String, T>) -> Result<TraceSettingResponse, InferError> {
    if let Some(name) = given.keys().next() {
        return Err(fixed_trace(name));
    }
    let settings = TRACE_SETTINGS
        .map(|(name, value)| (name.to_owned(), TraceValue { value: vec![value.to_owned()] }));
    Ok(TraceSettingResponse { settings: settings.into() })
}

pub fn log_response<T>(given: &BTreeMap<String, T>) -> Result<LogSettingsResponse, InferError> {
    if let Some(name) = given.keys().next() {
        return Err(fixed_log(name));
    }
    let settings = LOG_FLAGS.map(|(name, is_on)| {
        let value = ParameterChoice::BoolParam(is_on);
        (name.to_owned(), LogValue { parameter_choice: Some(value) })
    });
    Ok(LogSettingsResponse { settings: settings.into() })
}
