//! The names that a pickle may refer to, and what each makes. There are no others.

use super::torch_dtype::TorchDtype;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Global {
    OrderedDict,
    Set,
    Bytes,
    /// How protocol 2 writes bytes: a text and the name of its code.
    Encode,
    /// `(storage, offset, size, stride, ...)`
    RebuildTensor,
    /// The same with the type behind it, for types that have no storage class.
    RebuildTensorOfType,
    /// `(tensor, ...)`: the tensor.
    RebuildParameter,
    /// `(function, type, arguments, state)`: what the function makes of the arguments.
    RebuildFromType,
    /// A tensor of a class of book-keeping, through `RebuildFromType`.
    RebuildSubclass,
    /// A class of tensors, as an argument.
    TensorClass,
    Size,
    /// A device, or a layout: their name.
    Named,
    Dtype(TorchDtype),
    /// A storage class: of numbers of a type, or of bytes.
    Storage(Option<TorchDtype>),
    /// Book-keeping that is read over.
    Opaque(&'static str),
    /// Of `ShardedTensor`, one attribute of which names a class of book-keeping.
    GetAttribute,
}

pub const SHARDED_TENSOR: &str = "torch.distributed._shard.sharded_tensor.api.ShardedTensor";
pub const PROCESS_GROUP_STATE: &str =
    "torch.distributed._shard.sharded_tensor.api.ShardedTensor.ProcessGroupState";

/// What distributed training leaves in a state dict: tables whose rows are in other files, and the
/// state of kernels. Their content is not read.
const OPAQUE: [&str; 10] = [
    SHARDED_TENSOR,
    PROCESS_GROUP_STATE,
    "torch.distributed._shard.sharded_tensor.shard.Shard",
    "torch.distributed._shard.metadata.ShardMetadata",
    "torch.distributed.remote_device._remote_device",
    "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "torch.distributed._shard.sharded_tensor.metadata.ShardedTensorMetadata",
    "torch.distributed._shard.sharding_spec.api.EnumerableShardingSpec",
    "_io.BytesIO",
];

impl Global {
    /// Modules have the names of Python 2 where the protocol is 2.
    pub fn named(module: &str, name: &str) -> Option<Self> {
        let global = match (module, name) {
            ("collections", "OrderedDict") => Global::OrderedDict,
            ("builtins" | "__builtin__", "set" | "frozenset") => Global::Set,
            ("builtins" | "__builtin__", "bytes") => Global::Bytes,
            ("builtins" | "__builtin__", "getattr") => Global::GetAttribute,
            ("_codecs", "encode") => Global::Encode,
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Global::RebuildTensor,
            ("torch._utils", "_rebuild_tensor_v3") => Global::RebuildTensorOfType,
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
                Global::RebuildParameter
            }
            ("torch._tensor", "_rebuild_from_type_v2") => Global::RebuildFromType,
            ("torch", "Tensor") | ("torch.nn.parameter", "Parameter" | "Buffer") => {
                Global::TensorClass
            }
            ("torch._utils", "_rebuild_wrapper_subclass") => Global::RebuildSubclass,
            ("torch", "Size") => Global::Size,
            ("torch", "device") | ("torch.serialization", "_get_layout") => Global::Named,
            ("torch" | "torch.storage", "UntypedStorage") => Global::Storage(None),
            ("torch" | "torch.cuda", name) if name.ends_with("Storage") => {
                Global::Storage(Some(TorchDtype::from_storage(name)?))
            }
            ("torch", name) => Global::Dtype(TorchDtype::from_name(name)?),
            _ => {
                let whole = format!("{module}.{name}");
                Global::Opaque(OPAQUE.iter().find(|known| **known == whole)?)
            }
        };
        Some(global)
    }
}
