//! What the routes of the inference protocol take, and what inference gives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = kserve::InferRequest, example = json!({"inputs": [
    {"name": "KEYS", "shape": [3], "datatype": "INT64", "data": [7, 8, 9]},
    {"name": "NUMKEYS", "shape": [1], "datatype": "INT32", "data": [3]}]}))]
pub struct InferBodyShape {
    /// The response repeats it.
    id: Option<String>,
    /// `timeout` (microseconds), `priority` (1 is the highest), `binary_data_output` (whether all
    /// outputs come as bytes behind the JSON), and the model's own.
    parameters: Option<BTreeMap<String, Value>>,
    /// The model's inputs, in any order.
    inputs: Vec<InputShape>,
    /// The outputs to give, in their order; all where it is left out.
    outputs: Option<Vec<RequestedOutputShape>>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = kserve::InferInput)]
struct InputShape {
    /// As the model's metadata calls it.
    name: String,
    /// How long each dimension is.
    shape: Vec<i64>,
    /// `BOOL`, `UINT8` to `UINT64`, `INT8` to `INT64`, `FP16`, `BF16`, `FP32`, `FP64` or `BYTES`.
    datatype: String,
    /// `binary_data_size`: how many bytes behind the JSON are this input's.
    parameters: Option<BTreeMap<String, Value>>,
    /// The elements, in one list or in lists as the shape has them.
    data: Option<Vec<Value>>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = kserve::InferRequestedOutput)]
struct RequestedOutputShape {
    /// As the model's metadata calls it.
    name: String,
    /// `binary_data`: whether it comes as bytes behind the JSON. `classification`: the best so many
    /// classes of each row, as texts `score:index`, instead of the tensor.
    parameters: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = kserve::InferResponse)]
pub struct InferReplyShape {
    /// The request's; absent where it has none.
    id: Option<String>,
    /// The model that has answered.
    model_name: String,
    /// Its version.
    model_version: String,
    /// The model's own; absent where there are none.
    parameters: Option<BTreeMap<String, Value>>,
    /// In the order of the request.
    outputs: Vec<OutputShape>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = kserve::InferOutput)]
struct OutputShape {
    /// As the model's metadata calls it.
    name: String,
    /// As those of inputs.
    datatype: String,
    /// How long each dimension is.
    shape: Vec<i64>,
    /// `binary_data_size`, where it comes as bytes.
    parameters: Option<BTreeMap<String, Value>>,
    /// The elements in one list, where it does not. What JSON has no number for is `null`.
    data: Option<Vec<Value>>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = kserve::IndexRequest, example = json!({"ready": true}))]
pub struct IndexBody {
    /// Whether only models are listed that are ready; the default is false.
    ready: Option<bool>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = kserve::LoadRequest, example = json!({}))]
pub struct LoadBody {
    /// `config`: a model configuration as JSON text, in place of the repository's. `file:PATH`: the
    /// content of a file in base64; all files given are the model's folder.
    parameters: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[schema(as = kserve::UnloadRequest, example = json!({}))]
pub struct UnloadBody {
    /// `unload_dependents`: accepted; no model has others that depend on it.
    parameters: Option<BTreeMap<String, Value>>,
}
