//! The numbers of a layer's parameters.

use super::ctr_param::CtrParam;

/// By name, in one run of numbers.
#[derive(Clone, Copy)]
pub struct LayerParams<'a> {
    params: &'a [CtrParam],
    numbers: &'a [f32],
}

impl<'a> LayerParams<'a> {
    /// `numbers` are those of all parameters, one after the other.
    pub(super) fn new(params: &'a [CtrParam], numbers: &'a [f32]) -> Self {
        let wanted: usize = params.iter().map(|param| param.shape[0] * param.shape[1]).sum();
        assert_eq!(numbers.len(), wanted, "numbers of a layer's parameters");
        LayerParams { params, numbers }
    }

    /// Row by row; the layer has a parameter of this name.
    #[track_caller]
    pub fn get(&self, name: &str) -> &'a [f32] {
        let mut start = 0;
        for param in self.params {
            let count = param.shape[0] * param.shape[1];
            if param.name == name {
                return &self.numbers[start..start + count];
            }
            start += count;
        }
        panic!("the layer has no parameter {name}");
    }
}
