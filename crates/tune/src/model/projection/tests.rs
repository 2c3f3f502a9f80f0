//! Each kind of branch, trained step for step as PyTorch does.

use terrace_golden::GoldenTensors;
use terrace_testkit::golden_set;

use super::*;
use crate::exact_ops::exact_ops;
use crate::model::ParameterInfo;
use crate::model::parameter::ParameterId;
use crate::optimiser::{Optimiser, OptimiserKind, OptimiserOptions, OptimiserStep};

const STEPS: usize = 6;
const LEARNING_RATE: f64 = 0.01;
const SCALE: f32 = 1.5;

struct Golden(GoldenTensors);

impl Golden {
    fn numbers(&self, name: &str) -> &[f32] {
        self.0.f32s(name).unwrap()
    }

    fn matrix(&self, ops: &TuneOps<'_>, name: &str, id: Option<usize>) -> MatrixParameter {
        let [rows, _] = self.0.dims(name).unwrap();
        let id = id.map(ParameterId::of);
        MatrixParameter::of(ops, self.numbers(name), rows, id).unwrap()
    }

    fn info(&self, name: &str) -> ParameterInfo {
        let name = format!("start.{name}");
        ParameterInfo { shape: self.0.shape(&name).unwrap().to_vec(), name }
    }
}

#[track_caller]
fn near(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}");
    let largest = want.iter().fold(1.0f32, |most, x| most.max(x.abs()));
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= 1e-6 * largest, "{what}: {got} is not {want}");
    }
}

#[track_caller]
fn check(kind: &str, arrays: &[&str], form: impl Fn(VectorParameter) -> LoraForm) {
    let ops = exact_ops();
    let ops = ops.tuning().unwrap();
    let path = golden_set("tune").join("branches.safetensors");
    let golden = Golden(GoldenTensors::read(&path).unwrap());
    let vector =
        VectorParameter::of(&ops, golden.numbers("start.vector"), Some(ParameterId::of(2)));
    let mut projection = Projection {
        base: golden.matrix(&ops, "weight", None),
        bias: Some(VectorParameter::of(&ops, golden.numbers("bias"), None).unwrap()),
        lora: Some(Lora {
            a: golden.matrix(&ops, "start.a", Some(0)),
            b: golden.matrix(&ops, "start.b", Some(1)),
            scale: SCALE,
            dropout: 0.0,
            form: form(vector.unwrap()),
        }),
    };
    let infos: Vec<_> = arrays.iter().map(|name| golden.info(name)).collect();
    let mut gradients = Gradients::zeros(&ops, &infos).unwrap();
    let options = OptimiserOptions::new(OptimiserKind::AdamW);
    let mut optimiser: Box<dyn Optimiser> = options.build(&infos).unwrap();
    let shape: [usize; 2] = golden.0.dims("x").unwrap();
    let x = View::of(golden.numbers("x"), shape);
    for step in 0..STEPS {
        gradients.clear(&ops);
        let placed = projection.in_place();
        let (out, trace) = placed.forward(&ops, x, None, DType::F32).unwrap();
        let of = |what: &str| golden.numbers(&format!("{kind}.{step}.{what}"));
        near(&format!("{kind} {step} out"), &out.numbers(&ops).unwrap(), of("out"));
        let d_out = View::of(golden.numbers(&format!("d_out.{step}")), out.view().dims::<2>());
        let mut d_x = Tensor::zeros(&ops, "gradients", shape).unwrap();
        placed.backward(&ops, x, (&trace, None), d_out, &mut d_x, &mut gradients).unwrap();
        near(&format!("{kind} {step} d_x"), &d_x.numbers(&ops).unwrap(), of("d_x"));
        let of_step = OptimiserStep { number: step as u64 + 1, learning_rate: LEARNING_RATE };
        let changed = projection.change(&ops, &mut |id, values| {
            optimiser.change(id.index(), values, gradients.numbers(id), of_step);
            let name = arrays[id.index()];
            near(&format!("{kind} {step} {name}"), values, of(name));
        });
        changed.unwrap();
    }
}

#[test]
fn a_branch_is_trained_as_pytorch_trains_it() {
    check("default", &["a", "b"], |_| LoraForm::Default);
}

#[test]
fn a_branch_with_a_norm_is_trained_as_pytorch_trains_it() {
    check("rms_norm", &["a", "b", "vector"], LoraForm::RmsNorm);
}

#[test]
fn a_branch_with_lengths_is_trained_as_pytorch_trains_it() {
    check("dora", &["a", "b", "vector"], LoraForm::Dora);
}
