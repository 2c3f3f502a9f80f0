//! A parameter of a layer.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtrParam {
    /// After the layer's name and a dot.
    pub name: String,
    pub shape: [usize; 2],
    pub kind: CtrParamKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtrParamKind {
    /// Found by training.
    Trained,
    /// Stands in HugeCTR's file of trained parameters, but the layer does not use it.
    Unused,
    /// Seen in training: in HugeCTR's file of non-trainable parameters.
    Statistic,
}

impl CtrParam {
    pub fn trained(name: impl Into<String>, shape: [usize; 2]) -> Self {
        CtrParam { name: name.into(), shape, kind: CtrParamKind::Trained }
    }
}
