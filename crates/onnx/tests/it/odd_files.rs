//! What cannot be served is refused when it is read, and nothing panics.

use terrace_kernels::Combiner;
use terrace_onnx::OnnxNetwork;

use crate::exported;

fn refusal(file: &[u8]) -> String {
    OnnxNetwork::read(file, Combiner::Sum).err().expect("it is refused")
}

#[test]
fn a_file_for_one_sample_alone_is_refused() {
    let error = refusal(&exported("one_sample"));
    assert!(error.contains("samples"), "{error}");
}

#[test]
fn what_is_no_onnx_file_is_refused() {
    for bytes in [&b""[..], b"{\"layers\": []}", &[0xff; 64], &[0; 1024]] {
        refusal(bytes);
    }
}

#[test]
fn damaged_files_are_refused_or_computed() {
    let whole = exported("wdl");
    for end in (0..whole.len()).step_by(whole.len() / 11) {
        refusal(&whole[..end]);
    }
    // Names, shapes and kinds lie at both ends; between them are weights, which may be any.
    let last = whole.len() - 400;
    for at in (0..200).chain(last..whole.len()).step_by(17) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x15;
        if let Ok(network) = OnnxNetwork::read(&damaged, Combiner::Sum) {
            let mut out = vec![0.0; 2 * network.output_width()];
            let batch = network.batch(2).expect("a batch");
            network.compute(batch, &mut out).expect("it was tried when it was read");
        }
    }
}
