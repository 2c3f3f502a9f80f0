//! Everything that is done with the weights of a model from a file.

use std::sync::LazyLock;

use terrace_device::DType;
use terrace_kernels::{Compute, CpuOptions, Ops, unpack_row};
use terrace_model::golden::PagedRun;
use terrace_model::{Decoder, DecoderSpec, DecoderTensors, Error, Families, ModelConfig, Weights};

static OPS: LazyLock<Ops> = LazyLock::new(|| {
    Ops::cpu(CpuOptions { threads: 1, level: None, compute: Compute::Fast })
        .expect("every processor has a level")
});

/// Reads each tensor.
pub fn read_tensors(weights: &Weights) {
    for name in weights.names() {
        let rank = weights.info(name).expect("it is listed").shape.len();
        let matrix = weights.matrix(name);
        assert_eq!(matrix.is_ok(), rank == 2, "{name}");
        if let Ok(matrix) = matrix {
            let mut row = vec![0.0; matrix.columns()];
            unpack_row(matrix.format(), matrix.row(matrix.rows() - 1), &mut row);
        }
        if let Ok(vector) = weights.vector(name) {
            assert_eq!(rank, 1, "{name} is a vector of {}", vector.len());
        }
    }
}

/// Builds the decoder that a configuration describes and runs it.
pub fn run(config: &ModelConfig, weights: &Weights) -> Result<(), Error> {
    let (spec, tensors) = Families::known().read(config, weights)?;
    run_decoder(spec, tensors)
}

/// Runs two tokens through a decoder.
pub fn run_decoder(spec: DecoderSpec, tensors: DecoderTensors) -> Result<(), Error> {
    let decoder = Decoder::place(spec, tensors, &OPS, || {})?;
    let groups = decoder.spec().kv_groups(2, DType::F32);
    let mut run = PagedRun::new(&decoder, &OPS, &groups, 3, vec![2])?;
    run.step(&[vec![0, 0]], usize::MAX, |_| 3)?;
    Ok(())
}
