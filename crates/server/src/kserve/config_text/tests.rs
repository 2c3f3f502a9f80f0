//! Configurations as people write them, and what is wrong with some.

use super::super::messages::ModelParameter;
use super::super::messages::model_config::SchedulingChoice;
use super::super::messages::model_instance_group::Kind;
use super::*;

/// As those of HugeCTR's backend are written: `parameters` is one list or many fields.
const CLICKS: &str = r#"
# A click-through model.
name: "clicks"
backend: "hugectr"
max_batch_size: 64,
input [
  {
    name: "DES"
    data_type: TYPE_FP32
    dims: [ -1 ]
  },
  { name: 'CATCOLUMN', data_type: TYPE_INT64; dims: -1 }   # the keys
  {
    name: "ROWINDEX"
    data_type : TYPE_INT32
    dims: [ -1 ]
  }
]
output < name: "OUTPUT0" data_type: 11 dims: [ -1 ] >
instance_group [
  { count: 2 kind : KIND_GPU gpus:[0, 1] }
]
parameters [
  { key: "gpucache" value: { string_value: "true" } },
  { key: "gpucacheper" value: { string_value: "0." "5" } }
]
parameters { key: "slots" value { string_value: "26" } }
dynamic_batching { max_queue_delay_microseconds: 500 preferred_batch_size: [ 4, 8 ] }
"#;

#[test]
fn a_configuration_is_read_as_it_is_written() {
    let config = read_model_config(CLICKS).expect("nothing is wrong");
    assert_eq!((config.name.as_str(), config.backend.as_str()), ("clicks", "hugectr"));
    assert_eq!(config.max_batch_size, 64);
    let inputs: Vec<_> = config.input.iter().map(|it| (it.name.as_str(), it.dims[0])).collect();
    assert_eq!(inputs, [("DES", -1), ("CATCOLUMN", -1), ("ROWINDEX", -1)]);
    assert_eq!(config.output[0].data_type().as_str_name(), "TYPE_FP32");
    let group = &config.instance_group[0];
    assert_eq!((group.count, group.kind(), group.gpus.as_slice()), (2, Kind::Gpu, &[0, 1][..]));
    let parameter = |text: &str| ModelParameter { string_value: text.to_owned() };
    assert_eq!(config.parameters.len(), 3);
    for (name, value) in [("gpucache", "true"), ("gpucacheper", "0.5"), ("slots", "26")] {
        assert_eq!(config.parameters[name], parameter(value));
    }
    let Some(SchedulingChoice::DynamicBatching(batching)) = config.scheduling_choice else {
        panic!("it batches");
    };
    assert_eq!(batching.preferred_batch_size, [4, 8]);
    assert_eq!(read_model_config(""), Ok(ModelConfig::default()));
}

#[track_caller]
fn check_refused(text: &str, want: &str) {
    let error = read_model_config(text).expect_err("something is wrong");
    assert!(error.starts_with(want), "{error}");
}

#[test]
fn errors_say_where_they_are() {
    check_refused("name: \"a\"\n  nme: 1", "line 2, column 3: field 'nme' not found");
    check_refused("input [\n {} {}\n {} { é: 1 } ]", "line 3, column 7: invalid token");
    check_refused("input [\n {} {}\n {} { nme: 1 } ]", "line 3, column 7: field 'nme' not found");
    check_refused("max_batch_size: 3000000000", "line 1, column 17: expected value to be a signed");
    check_refused("output { data_type: TYPE_FP8 }", "line 1, column 21: value 'TYPE_FP8' was not");
    check_refused("input [ { name: \"a\" }", "line 1, column 22: expected");
    check_refused("name: \"a\" name: \"b\"", "line 1, column 17: 'name' is already set");
    check_refused("name: \"é\" }", "line 1, column 11: expected");
    let deep = format!("input {}", "{".repeat(33));
    check_refused(&deep, "line 1, column 39: messages stand more than 32 deep in each other");
    let any = "[a/inference.ModelConfig] {".repeat(40);
    check_refused(&any, "line 1, column ");
    let long = " ".repeat(BYTES_MOST + 1);
    check_refused(&long, "the configuration has 1048577 bytes, the limit is 1048576");
}

#[test]
fn half_a_configuration_is_an_error_and_no_panic() {
    for end in (0..CLICKS.len()).filter(|end| CLICKS.is_char_boundary(*end)) {
        // Some are whole by chance.
        drop(read_model_config(&CLICKS[..end]));
        drop(read_model_config(&CLICKS[end..]));
    }
}
