//! The best classes of an output, as texts: Triton's classification extension.

use bytes::Bytes;

use super::infer_error::InferError;
use super::tensor::Tensor;
use super::tensor_data::TensorData;

/// Of each row of the last dimension the highest `classes`, best first, as `score:index`; where
/// scores are the same, the first class.
pub fn classified(tensor: &Tensor, classes: usize) -> Result<Tensor, InferError> {
    let scores = scores_of(tensor)?;
    let (row, rows) = match tensor.shape().split_last() {
        Some((row, rows)) => (usize::try_from(*row).unwrap_or(0), rows),
        None => (1, tensor.shape()),
    };
    let kept = classes.min(row);
    let mut texts = Vec::with_capacity(kept.saturating_mul(scores.len() / row.max(1)));
    for scores in scores.chunks_exact(row.max(1)) {
        let mut order: Vec<usize> = (0..row).collect();
        let best_first = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
        if kept > 0 && kept < row {
            order.select_nth_unstable_by(kept - 1, best_first);
        }
        order.truncate(kept);
        order.sort_unstable_by(best_first);
        let text = |index: usize| Bytes::from(format!("{:.6}:{index}", scores[index]));
        texts.extend(order.into_iter().map(text));
    }
    let kept = i64::try_from(kept).expect("a row is in memory");
    let shape = rows.iter().copied().chain([kept]).collect();
    Tensor::new(tensor.name(), shape, TensorData::Bytes(texts))
}

fn scores_of(tensor: &Tensor) -> Result<Vec<f64>, InferError> {
    macro_rules! scores {
        ($numbers:expr) => {
            $numbers.iter().map(|number| f64::from(*number)).collect()
        };
    }
    Ok(match tensor.data() {
        TensorData::Uint8(numbers) => scores!(numbers),
        TensorData::Uint16(numbers) => scores!(numbers),
        TensorData::Uint32(numbers) => scores!(numbers),
        TensorData::Int8(numbers) => scores!(numbers),
        TensorData::Int16(numbers) => scores!(numbers),
        TensorData::Int32(numbers) => scores!(numbers),
        TensorData::Fp32(numbers) => scores!(numbers),
        TensorData::Fp64(numbers) => numbers.clone(),
        TensorData::Uint64(numbers) => numbers.iter().map(|number| *number as f64).collect(),
        TensorData::Int64(numbers) => numbers.iter().map(|number| *number as f64).collect(),
        TensorData::Bool(_) | TensorData::Fp16(_) | TensorData::Bf16(_) | TensorData::Bytes(_) => {
            let (name, datatype) = (tensor.name(), tensor.datatype().name());
            return Err(InferError::invalid(format!(
                "the output {name:?} has the datatype {datatype}, of which there are no classes; \
                 ask for it without classification"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shape: &[i64], data: TensorData, classes: usize, want: (&[i64], &[&str])) {
        let tensor = Tensor::new("T", shape.to_vec(), data).expect("a tensor");
        let found = classified(&tensor, classes).expect("it has classes");
        assert_eq!(found.shape(), want.0);
        let texts = want.1.iter().map(|text| Bytes::from((*text).to_owned())).collect();
        assert_eq!(*found.data(), TensorData::Bytes(texts));
    }

    #[test]
    fn the_best_of_each_row_come_first() {
        let scores = TensorData::Fp32(vec![0.25, 0.75, 0.5, 3.0, 3.0, -1.0]);
        let best = ["0.750000:1", "0.500000:2", "3.000000:0", "3.000000:1"];
        check(&[2, 3], scores.clone(), 2, (&[2, 2], &best));
        check(&[6], scores.clone(), 1, (&[1], &["3.000000:3"]));
        check(&[2, 3], scores, 0, (&[2, 0], &[]));
        let all = ["0.750000:1", "0.500000:2", "0.250000:0"];
        check(&[3], TensorData::Fp32(vec![0.25, 0.75, 0.5]), usize::MAX, (&[3], &all));
        check(&[0, 3], TensorData::Int64(Vec::new()), 2, (&[0, 2], &[]));
        check(&[2, 0], TensorData::Int64(Vec::new()), 2, (&[2, 0], &[]));
        check(&[], TensorData::Int8(vec![-4]), 2, (&[1], &["-4.000000:0"]));
    }

    #[test]
    fn texts_have_no_classes() {
        let tensor = Tensor::list("T", TensorData::Bytes(vec!["a".into()]));
        let error = classified(&tensor, 1).expect_err("a text is no score");
        assert!(error.message.contains("the datatype BYTES"), "{error}");
    }
}
