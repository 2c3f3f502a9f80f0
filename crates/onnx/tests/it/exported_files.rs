//! Answers of exported files are the golden ones.

use safetensors::SafeTensors;
use terrace_kernels::Combiner;
use terrace_onnx::{InputRole, OnnxNetwork};

use crate::{TESTDATA, exported};

/// f32 against f64.
const TOLERANCE: f64 = 1e-6;

fn numbers<const N: usize>(file: &SafeTensors<'_>, name: &str) -> Option<Vec<[u8; N]>> {
    let tensor = file.tensor(name).ok()?;
    Some(tensor.data().as_chunks().0.to_vec())
}

fn floats(file: &SafeTensors<'_>, name: &str) -> Option<Vec<f32>> {
    Some(numbers(file, name)?.into_iter().map(f32::from_le_bytes).collect())
}

/// Whether the case has vectors of all tables.
fn check_case(network: &OnnxNetwork, file: &SafeTensors<'_>) -> bool {
    let wanted = numbers(file, "OUTPUT0").expect("results");
    let wanted: Vec<f64> = wanted.into_iter().map(f64::from_le_bytes).collect();
    let mut batch = network.batch(wanted.len()).expect("a batch");
    for (at, table) in network.inputs().tables.iter().enumerate() {
        let Some(vectors) = floats(file, &format!("combined.{}", table.name)) else { return false };
        network.fill(&mut batch, InputRole::Table(at), |to| to.copy_from_slice(&vectors));
    }
    let dense = floats(file, "DES").expect("dense features");
    network.fill(&mut batch, InputRole::Dense, |to| to.copy_from_slice(&dense));
    let mut out = vec![0.0; wanted.len()];
    network.compute(batch, &mut out).expect("numbers");
    for (found, wanted) in out.iter().zip(&wanted) {
        assert!((f64::from(*found) - wanted).abs() < TOLERANCE, "{found}, not {wanted}");
    }
    true
}

#[test]
fn files_that_pytorch_exported_give_the_golden_numbers() {
    for (model, tables) in [("dlrm", &[[26, 32]][..]), ("wdl", &[[2, 1], [26, 16]])] {
        let network = OnnxNetwork::read(&exported(model), Combiner::Sum).expect("a network");
        let inputs = network.inputs();
        let found: Vec<_> = inputs.tables.iter().map(|table| [table.slots, table.dim]).collect();
        assert_eq!((inputs.dense_dim, found.as_slice(), network.output_width()), (13, tables, 1));
        let folder = format!("{TESTDATA}/ctr/{model}");
        let cases = std::fs::read_dir(folder).expect("a folder").filter_map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name()?.to_str()?;
            (name.starts_with("case_")).then(|| std::fs::read(&path).expect("a case"))
        });
        let checked = cases.filter(|bytes| {
            let file = SafeTensors::deserialize(bytes).expect("safetensors");
            check_case(&network, &file)
        });
        assert!(0 < checked.count(), "no case of {model} has the vectors of its tables");
    }
}
