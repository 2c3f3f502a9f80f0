//! Networks and weights that are not as they should be: errors that say what is wrong, and no more
//! memory than the files have.

use serde_json::{Value, json};
use terrace_device::{Device, View, ViewMut, Workspace};
use terrace_kernels::{Combiner, Compute, CpuOptions, Ops};
use terrace_model::Error;
use terrace_model::ctr::{
    CtrCompute, CtrCtx, CtrForm, CtrInput, CtrLayer, CtrLayerKinds, CtrModel, CtrNetwork,
    CtrPlacing, CtrShape, CtrWeights, LayerFields, PlacedCtrLayer,
};

fn data() -> Value {
    json!({
        "name": "data",
        "type": "Data",
        "label": {"top": "label", "label_dim": 1},
        "dense": {"top": "dense", "dense_dim": 4},
        "sparse": [{"top": "keys", "slot_num": 3, "is_fixed_length": false, "nnz_per_slot": 2}]
    })
}

fn embedding() -> Value {
    json!({
        "name": "table",
        "type": "DistributedSlotSparseEmbeddingHash",
        "bottom": "keys",
        "top": "table",
        "sparse_embedding_hparam": {"embedding_vec_size": 5, "combiner": "mean"}
    })
}

fn layer(kind: &str, bottom: Value, top: Value, options: Value) -> Value {
    let mut layer = json!({"type": kind, "bottom": bottom, "top": top});
    let options = options.as_object().expect("options").clone();
    layer.as_object_mut().expect("a layer").extend(options);
    layer
}

fn fc(bottom: &str, top: &str, outputs: usize) -> Value {
    let options = json!({"fc_param": {"num_output": outputs}});
    layer("InnerProduct", json!(bottom), json!(top), options)
}

fn loss(bottom: &str, label: &str) -> Value {
    layer("BinaryCrossEntropyLoss", json!([bottom, label]), json!("loss"), json!({}))
}

/// With the data layer, an embedding, and these.
fn network(layers: &[Value]) -> Result<CtrNetwork, Error> {
    parse(&[&[data(), embedding()], layers].concat())
}

fn parse(layers: &[Value]) -> Result<CtrNetwork, Error> {
    CtrNetwork::parse(json!({ "layers": layers }).to_string().as_bytes())
}

fn good() -> CtrNetwork {
    network(&[fc("dense", "fc1", 3), fc("fc1", "fc2", 1), loss("fc2", "label")])
        .expect("it is good")
}

#[track_caller]
fn refused(found: Result<CtrNetwork, Error>, parts: &[&str]) {
    let error = found.err().expect("it is refused").to_string();
    for part in parts {
        assert!(error.contains(part), "{error:?} has no {part:?}");
    }
}

fn ops() -> Ops {
    Ops::cpu(CpuOptions { threads: 1, level: None, compute: Compute::F32 }).expect("a cpu")
}

#[test]
fn a_network_says_what_it_takes_and_gives() {
    let network = good();
    assert_eq!(network.inputs().dense_dim, 4);
    let [table] = network.inputs().tables.as_slice() else { panic!("one table") };
    assert_eq!((table.name.as_str(), table.slots, table.dim), ("table", 3, 5));
    assert_eq!(table.combiner, Combiner::Mean);
    assert_eq!((table.keys_per_slot_most, table.keys_per_sample_most), (2, 6));
    let [output] = network.outputs() else { panic!("one output") };
    assert_eq!((output.name.as_str(), output.width), ("label", 1));
    let params: Vec<_> = network.params().collect();
    let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
    assert_eq!(names, ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]);
    assert_eq!(params[0].shape, [4, 3]);
    assert!(!network.mixes_samples());
}

#[test]
fn other_ways_to_write_inputs() {
    let mut data = data();
    data["label"] = json!({"top": ["a", "b"], "label_dim": [2, 1]});
    data["sparse"][0]["nnz_per_slot"] = json!([1, 4, 2]);
    let mut embedding = embedding();
    embedding["sparse_embedding_hparam"]["combiner"] = json!(0);
    let layers = [fc("dense", "x", 1), loss("x", "b"), fc("dense", "y", 2), loss("y", "a")];
    let network = parse(&[&[data.clone(), embedding], &layers[..]].concat()).expect("it is good");
    let widths: Vec<_> = network.outputs().iter().map(|it| (it.name.as_str(), it.width)).collect();
    assert_eq!(widths, [("a", 2), ("b", 1)]);
    let table = &network.inputs().tables[0];
    assert_eq!((table.keys_per_slot_most, table.keys_per_sample_most), (4, 7));
    assert_eq!(table.combiner, Combiner::Sum);
    for label in [
        json!([{"top": "a", "label_dim": 2}, {"top": "b", "label_dim": 1}]),
        json!({"top": ["a", "b"], "label_dim": {"b": 1, "a": 2}}),
    ] {
        data["label"] = label;
        let network = parse(&[&[data.clone()], &layers[..]].concat()).expect("it is good");
        assert_eq!(network.output_width(), 3);
    }
    data["sparse"][0].as_object_mut().expect("keys").remove("nnz_per_slot");
    data["sparse"][0]["max_feature_num_per_sample"] = json!(30);
    assert!(parse(&[&[data], &layers[..]].concat()).is_ok());
}

#[test]
fn a_layer_that_is_not_known_is_refused_by_its_name() {
    let gru = layer("GRU", json!("dense"), json!("gru1"), json!({}));
    refused(network(&[gru]), &["\"gru1\" (GRU)", "not known", "InnerProduct", "MultiCross"]);
    let named = json!({"name": "mine", "type": "Other", "bottom": "dense", "top": "x"});
    refused(network(&[named]), &["\"mine\" (Other)"]);
}

#[test]
fn wiring_that_leads_nowhere_is_refused() {
    refused(network(&[fc("dens", "fc", 1)]), &["\"fc\" (InnerProduct)", "\"dens\"", "no layer"]);
    refused(network(&[fc("fc2", "fc1", 1), fc("dense", "fc2", 1)]), &["\"fc2\""]);
    refused(network(&[fc("dense", "fc", 1), fc("dense", "fc", 2)]), &["\"fc\" is made twice"]);
    refused(network(&[fc("dense", "dense", 1)]), &["\"dense\" is made twice"]);
    refused(network(&[fc("label", "fc", 1)]), &["\"label\" is a label"]);
    refused(network(&[fc("keys", "fc", 1)]), &["\"keys\" is keys"]);
    refused(network(&[loss("dense", "dense")]), &["\"dense\" is no label"]);
    refused(network(&[fc("dense", "x", 2), loss("x", "label")]), &["[samples, 2]", "has 1"]);
    let twice = [fc("dense", "x", 1), loss("x", "label"), loss("x", "label")];
    refused(network(&twice), &["another loss"]);
    let heads = layer(
        "FusedInnerProduct",
        json!("dense"),
        json!(["a", "b", "c", "d"]),
        json!({"fc_param": {"num_output": 2}, "position": "Head"}),
    );
    refused(network(&[heads, fc("b", "fc", 1)]), &["\"b\"", "training only"]);
    let same = json!({"type": "ReLU", "name": "n", "bottom": "dense", "top": []});
    refused(network(&[same]), &["makes 1 tops, but has 0"]);
    let fc_named = |top: &str| {
        let mut fc = fc("dense", top, 1);
        fc["name"] = json!("same");
        fc
    };
    refused(network(&[fc_named("x"), fc_named("y")]), &["same.weight", "rename"]);
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_their_numbers() {
    let check = |kind: &str, bottom: Value, options: Value, parts: &[&str]| {
        refused(network(&[layer(kind, bottom, json!("top"), options)]), parts);
    };
    let table = json!("table");
    check("Reshape", table.clone(), json!({"leading_dim": 4}), &["15 numbers", "rows of 4"]);
    check("Reshape", table.clone(), json!({"leading_dim": 30}), &["15 numbers", "rows of 30"]);
    check("Reshape", table.clone(), json!({"shape": [3, -1]}), &["must begin with -1"]);
    check("Reshape", table, json!({"selected": [3]}), &["slot 3 of the 3"]);
    check("Slice", json!("dense"), json!({"ranges": [[2, 5]]}), &["[2, 5]", "4 columns"]);
    check("Slice", json!("dense"), json!({"ranges": [[2, 2]]}), &["[2, 2]"]);
    check("Slice", json!("dense"), json!({"ranges": [[0, 2], [2, 4]]}), &["makes 2 tops"]);
    check("Concat", json!(["dense", "table"]), json!({}), &["[samples, 4]", "[samples, 3, 5]"]);
    check("Concat", json!(["dense", "dense"]), json!({"axis": 2}), &["axis 2"]);
    check("Add", json!(["dense", "table"]), json!({}), &["[samples, 4]", "must be the same"]);
    check("Add", json!(["dense"]), json!({}), &["two or more"]);
    check("Sub", json!(["dense", "dense", "dense"]), json!({}), &["3 bottoms"]);
    check("WeightMultiply", json!("dense"), json!({"weight_dims": [5, 2]}), &["begins with 5"]);
    check("WeightMultiply", json!("dense"), json!({"weight_dims": [4]}), &["1 numbers, not two"]);
    check("FmOrder2", json!("dense"), json!({"out_dim": 3}), &["out_dim 3"]);
    check("ReduceSum", json!("dense"), json!({"axis": 0}), &["axis 0"]);
    check("ReduceSum", json!("dense"), json!({"axis": 2}), &["no axis 2"]);
    check("Interaction", json!(["dense", "table"]), json!({}), &["different vectors"]);
    check("FusedReshapeConcat", json!(["dense"]), json!({}), &["[samples, slots, numbers]"]);
    let attention = json!({"num_attention_heads": 2});
    check("MultiHeadAttention", json!(["table", "table", "table"]), attention, &["5 numbers"]);
    check(
        "SequenceMask",
        json!(["dense", "dense"]),
        json!({"max_sequence_len_from": 2, "max_sequence_len_to": 2}),
        &["one length"],
    );
    check("Softmax", json!(["dense", "dense"]), json!({}), &["MultiHeadAttention"]);
    check("InnerProduct", json!("dense"), json!({}), &["it has no fc_param"]);
    check(
        "ELU",
        json!("dense"),
        json!({"elu_param": {"alpha": "x"}}),
        &["elu_param.alpha is \"x\""],
    );
    check(
        "MLP",
        json!("dense"),
        json!({"mlp_param": {"num_outputs": [2, 3], "activations": ["Relu"]}}),
        &["2 num_outputs and 1 activations"],
    );
    refused(network(&[]), &["no layers after its embeddings"]);
    let rows = layer("Reshape", json!("table"), json!("rows"), json!({"leading_dim": 5}));
    refused(network(&[rows]), &["\"rows\"", "[samples * 3, 5]"]);
}

#[test]
fn absurd_numbers_are_refused() {
    let check = |layer: Value, parts: &[&str]| refused(network(&[layer]), parts);
    let most = CtrShape::MAX_NUMBERS;
    check(fc("dense", "fc", usize::MAX), &["more than", &most.to_string()]);
    check(fc("dense", "fc", most + 1), &["more than"]);
    check(fc("dense", "fc", 0), &["[samples, 0] is empty"]);
    let of = |kind: &str, options: Value| layer(kind, json!("dense"), json!("top"), options);
    for number in [json!(-1), json!(1.5), json!("3"), json!(1e300), json!(true), json!([1])] {
        let options = json!({"fc_param": {"num_output": number.clone()}});
        check(of("InnerProduct", options), &["fc_param.num_output is", &number.to_string()]);
    }
    check(of("MultiCross", json!({"mc_param": {"num_layers": 1_000_000_000}})), &["1000000000"]);
    check(of("MultiCross", json!({"mc_param": {"num_layers": 0}})), &["num_layers is 0"]);
    let wide = json!({"mc_param": {"num_layers": 2, "projection_dim": u64::MAX}});
    check(of("MultiCross", wide), &["more than"]);
    check(of("Scale", json!({"scale_param": {"axis": 1, "factor": u64::MAX}})), &["more than"]);
    check(of("Scale", json!({"scale_param": {"axis": 0, "factor": 1e9}})), &["more than"]);
    check(of("WeightMultiply", json!({"weight_dims": [4, u64::MAX]})), &["too large"]);
    check(of("FmOrder2", json!({"out_dim": 0})), &["is empty"]);
    check(of("Reshape", json!({"leading_dim": u64::MAX})), &["more than"]);
    let long = layer("ReLU", json!("dense"), json!("x".repeat(1000)), json!({}));
    check(long, &["1000 bytes"]);
    let mut data = data();
    data["dense"]["dense_dim"] = json!(u64::MAX);
    refused(parse(&[data.clone(), fc("dense", "fc", 1)]), &["more than"]);
    data["dense"]["dense_dim"] = json!(100_000);
    refused(parse(&[data.clone(), fc("dense", "fc", 1)]), &["100000 inputs"]);
    data["sparse"][0]["slot_num"] = json!(u64::MAX);
    refused(parse(&[data.clone(), fc("dense", "fc", 1)]), &["slot_num"]);
    data["sparse"][0]["slot_num"] = json!(3);
    data["sparse"][0]["nnz_per_slot"] = json!(u64::MAX);
    refused(parse(&[data]), &["nnz_per_slot"]);
    let wide = layer("Concat", json!(vec!["dense"; 5000]), json!("top"), json!({}));
    refused(network(&[wide]), &["5000 bottoms"]);
    let many: Vec<Value> = (0..5000)
        .map(|at| {
            fc(&if at == 0 { "dense".into() } else { format!("x{}", at - 1) }, &format!("x{at}"), 4)
        })
        .collect();
    refused(network(&many), &["4096"]);
}

#[test]
fn bytes_that_are_no_network_are_refused() {
    let check = |bytes: &[u8], parts: &[&str]| refused(CtrNetwork::parse(bytes), parts);
    check(b"", &["EOF"]);
    check(b"{}", &["no list of layers"]);
    check(br#"{"layers": []}"#, &["no layers"]);
    check(br#"{"layers": [1]}"#, &["layer 1 is no object"]);
    check(br#"{"layers": [{}]}"#, &["layer 1 has no type"]);
    check(br#"{"layers": [{"type": "ReLU", "bottom": "a", "top": "b"}]}"#, &["type Data"]);
    let deep = [b"{\"layers\": ".as_slice(), &b"[".repeat(1_000_000)].concat();
    check(&deep, &["recursion limit"]);
    let large = [b"{\"layers\": [".as_slice(), &b" ".repeat(5 << 20), b"]}"].concat();
    check(&large, &["5242894 bytes", "4194304"]);
}

#[test]
fn dense_files_that_do_not_fit_are_refused() {
    let network = good();
    let refused = |found: Result<CtrWeights, Error>, parts: &[&str]| {
        let error = found.err().expect("it is refused").to_string();
        parts.iter().for_each(|part| assert!(error.contains(part), "{error:?} has no {part:?}"));
    };
    for bytes in [0, 75, 76, 72, 80] {
        let found = CtrWeights::from_hugectr(&network, &vec![0; bytes]);
        match bytes {
            76 => assert!(found.is_ok(), "19 parameters"),
            _ => refused(found, &[&format!("{bytes} bytes"), "19 parameters"]),
        }
    }
    refused(CtrWeights::from_safetensors(&network, b"nothing"), &["no safetensors"]);
    let tensors = |shape: &str, bytes: usize| {
        let header = format!(
            r#"{{"dense.fc1.weight": {{"dtype": "F32", "shape": {shape},
                "data_offsets": [0, {bytes}]}}}}"#
        );
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; bytes]].concat()
    };
    let wrong = CtrWeights::from_safetensors(&network, &tensors("[3, 4]", 48));
    refused(wrong, &["fc1.weight", "[3, 4]", "[4, 3]"]);
    let missing = CtrWeights::from_safetensors(&network, &tensors("[4, 3]", 48));
    refused(missing, &["fc1.bias"]);
    // No memory is taken for what the file does not have.
    let huge = [fc("dense", "x", 65_536), fc("x", "y", 1 << 24)];
    let huge = network_of(&huge);
    refused(CtrWeights::from_safetensors(&huge, &tensors("[4, 3]", 48)), &["x.weight"]);
    refused(CtrWeights::from_hugectr(&huge, &[0; 4]), &["4 bytes"]);
}

fn network_of(layers: &[Value]) -> CtrNetwork {
    network(layers).expect("it is good")
}

#[test]
fn statistics_must_be_there_and_fit() {
    let norm = layer(
        "BatchNorm",
        json!("dense"),
        json!("norm"),
        json!({"bn_param": {"factor": 1.0, "eps": 0.0}}),
    );
    let network = network_of(&[norm]);
    let weights = || CtrWeights::from_hugectr(&network, &[0; 32]).expect("gamma and beta");
    let error = CtrModel::place(&ops(), &network, &weights()).err().expect("no statistics");
    assert!(error.to_string().contains("norm.running_mean"), "{error}");
    let check = |file: Value, part: &str| {
        let found = weights().with_statistics(&network, file.to_string().as_bytes());
        let error = found.err().expect("it is refused").to_string();
        assert!(error.contains(part), "{error:?} has no {part:?}");
    };
    let layer = |count: usize| {
        let (mean, var) = (vec![0.0; count], vec![1.0; count]);
        json!({"type": "BatchNorm", "mean": mean, "var": var})
    };
    check(json!({"layers": []}), "none for norm.running_mean");
    check(json!({"layers": [layer(3)]}), "3 numbers for norm.running_mean, which has 4");
    check(json!({"layers": [layer(4), layer(4)]}), "1 layers more");
    check(json!({}), "layers");
    let file = json!({"layers": [layer(4)]}).to_string();
    let weights = weights().with_statistics(&network, file.as_bytes()).expect("they fit");
    assert!(CtrModel::place(&ops(), &network, &weights).is_ok());
    let other = good();
    let error = CtrModel::place(&ops(), &other, &weights).err().expect("other weights");
    assert!(error.to_string().contains("another network"), "{error}");
}

/// A layer of one's own: twice its bottom.
struct Twice;

impl CtrLayer for Twice {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        Ok(bottoms.to_vec())
    }

    fn form(&self, _bottoms: &[CtrShape]) -> CtrForm<'_> {
        CtrForm::Computes(self)
    }
}

impl CtrCompute for Twice {
    fn place(&self, _placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error> {
        Ok(Box::new(PlacedTwice))
    }
}

struct PlacedTwice;

impl PlacedCtrLayer for PlacedTwice {
    fn forward(&self, _ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]) {
        let [rows, _] = bottoms[0].dims();
        for row in 0..rows {
            let x: &[f32] = bottoms[0].row(row);
            tops[0].row_mut::<f32>(row).iter_mut().zip(x).for_each(|(to, x)| *to = 2.0 * x);
        }
    }
}

#[test]
fn a_layer_of_ones_own_is_like_any_other() {
    let read = |_: &LayerFields<'_>| -> Result<Box<dyn CtrLayer>, String> { Ok(Box::new(Twice)) };
    let kinds = CtrLayerKinds::hugectr().with("Twice", read);
    let twice = layer("Twice", json!("dense"), json!("twice"), json!({}));
    let relu = layer("ReLU", json!("twice"), json!("relu"), json!({}));
    let json = json!({"layers": [data(), twice, relu]}).to_string();
    refused(CtrNetwork::parse(json.as_bytes()), &["Twice", "not known"]);
    let network = CtrNetwork::parse_with(json.as_bytes(), &kinds).expect("it is known");
    let weights = CtrWeights::from_hugectr(&network, &[]).expect("no weights");
    let ops = ops();
    let model = CtrModel::place(&ops, &network, &weights).expect("no weights");
    let workspace = Workspace::new(&Device::Cpu, model.workspace_bytes(&ops, 2)).expect("memory");
    let (dense, mut out) = ([1.0, -2.0, 3.0, 0.5, 0.0, 1.0, -1.0, 4.0], [f32::NAN; 8]);
    let input = CtrInput { dense: Some(View::of(&dense, [2, 4])), pooled: &[] };
    let ctx = CtrCtx { ops: &ops, workspace: &workspace };
    model.forward(ctx, input, ViewMut::of(&mut out, [2, 4]));
    assert_eq!(out, [2.0, 0.0, 6.0, 1.0, 0.0, 2.0, 0.0, 8.0]);
}
