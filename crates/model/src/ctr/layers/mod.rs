//! The layers of HugeCTR's networks.

mod activation;
mod attention;
mod batch_norm;
mod combine;
mod concat;
mod cross_step;
mod dice;
mod fm_order2;
mod fused_reshape_concat;
mod inner_product;
mod interaction;
mod layer_norm;
mod mlp;
mod multi_cross;
mod product;
mod reduce;
mod reshape;
mod same;
mod scale;
mod select_slots;
mod sequence_mask;
mod shape_rules;
mod slice;
mod softmax;
mod vector_cross;
mod weight_multiply;

pub(super) use softmax::Softmax;

use super::ctr_layer::CtrLayer;
use super::layer_fields::LayerFields;

type Read = fn(&LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String>;

/// By the names of HugeCTR's JSON.
pub(super) const KINDS: &[(&str, Read)] = &[
    ("Add", combine::read_add),
    ("BatchNorm", batch_norm::read),
    ("Cast", same::read),
    ("Concat", concat::read),
    ("DotProduct", combine::read_multiply),
    ("Dropout", same::read),
    ("ELU", activation::read_elu),
    ("ElementwiseMultiply", combine::read_multiply),
    ("FmOrder2", fm_order2::read),
    ("FusedInnerProduct", inner_product::read_fused),
    ("FusedReshapeConcat", fused_reshape_concat::read),
    ("FusedReshapeConcatGeneral", concat::read_general),
    ("InnerProduct", inner_product::read),
    ("Interaction", interaction::read),
    ("LayerNorm", layer_norm::read),
    ("MLP", mlp::read),
    ("MultiCross", multi_cross::read),
    ("MultiHeadAttention", attention::read),
    ("PReLU_Dice", dice::read),
    ("ReLU", activation::read_relu),
    ("ReduceMean", reduce::read_mean),
    ("ReduceSum", reduce::read_sum),
    ("Reshape", reshape::read),
    ("Scale", scale::read),
    ("SequenceMask", sequence_mask::read),
    ("Sigmoid", activation::read_sigmoid),
    ("Slice", slice::read),
    ("Softmax", softmax::read),
    ("Sub", combine::read_subtract),
    ("WeightMultiply", weight_multiply::read),
];
