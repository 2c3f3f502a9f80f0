"""The messages of the inference protocol are those of NVIDIA's client, name by name.

usage: kserve_protocol.py DESCRIPTORS

DESCRIPTORS is a FileDescriptorSet of Terrace's files.
"""

from pathlib import Path

from checks import equal, run
from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2, service_pb2

# Messages of theirs that Terrace leaves out on purpose.
LEFT_OUT = set()


def theirs():
    for module in [model_config_pb2, service_pb2]:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        yield file


def ours(path):
    return descriptor_pb2.FileDescriptorSet.FromString(Path(path).read_bytes()).file


def flat(files):
    """Everything that is declared, by its full name."""
    found = {}

    def add_message(prefix, message):
        name = f"{prefix}.{message.name}"
        oneofs = [oneof.name for oneof in message.oneof_decl]
        found[name] = ("message", message.options.map_entry)
        for field in message.field:
            oneof = oneofs[field.oneof_index] if field.HasField("oneof_index") else None
            found[f"{name}.{field.name}"] = (
                "field", field.number, field.label, field.type, field.type_name, oneof,
            )
        for enum in message.enum_type:
            add_enum(name, enum)
        for nested in message.nested_type:
            add_message(name, nested)

    def add_enum(prefix, enum):
        found[f"{prefix}.{enum.name}"] = ("enum",)
        for value in enum.value:
            found[f"{prefix}.{enum.name}.{value.name}"] = ("value", value.number)

    for file in files:
        equal((file.package, file.syntax), ("inference", "proto3"))
        for enum in file.enum_type:
            add_enum(file.package, enum)
        for message in file.message_type:
            add_message(file.package, message)
        for service in file.service:
            for method in service.method:
                found[f"{file.package}.{service.name}.{method.name}"] = (
                    "method", method.input_type, method.output_type,
                    method.client_streaming, method.server_streaming,
                )
    return found


def test_every_name_and_number_is_theirs(path):
    theirs_flat, ours_flat = flat(theirs()), flat(ours(path))
    assert len(theirs_flat) > 500, len(theirs_flat)
    for name, found in ours_flat.items():
        equal((name, found), (name, theirs_flat.get(name)))


def test_none_of_theirs_is_missing(path):
    ours_flat = flat(ours(path))
    missing = [name for name in flat(theirs()) if name not in ours_flat]
    equal([name for name in missing if name.rsplit(".", 1)[-1] not in LEFT_OUT], [])


if __name__ == "__main__":
    run(globals(), "DESCRIPTORS")
