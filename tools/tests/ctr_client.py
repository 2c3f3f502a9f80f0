"""NVIDIA's clients for Triton, unchanged, against click-through models of a repository: HTTP and gRPC,
at once and with asyncio, while models come, are replaced and go.

usage: ctr_client.py TERRACE GOLDEN
"""

import asyncio
import contextlib
import json
import shutil
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http_client
import tritonclient.http.aio as http_aio
from checks import equal, raises, resident_mib, run
from ctr_files import MODELS, GoldenModel
from table_files import TableFiles
from tiered_server import TieredServer
from tritonclient.utils import InferenceServerException

OPTIONS = ["--device", "cpu", "--log-level", "warn"]
# f32 against f64.
TOLERANCE = 1e-6
CLIENTS = [http_client, grpc_client]


@contextlib.contextmanager
def serving(terrace, repository, *options):
    words = ["--model-repository", repository, *options]
    with TieredServer(terrace, None, *words, *OPTIONS) as server:
        server.address = server.base.removeprefix("http://")
        yield server


def same(result, want, tolerance=TOLERANCE):
    found = result.as_numpy("OUTPUT0")
    assert found.shape == want.shape, (found.shape, want.shape)
    apart = np.abs(found - want).max()
    assert apart <= tolerance, f"{apart} apart"


def answer(client, module, model, case, version=""):
    result = client.infer(model, case.inputs(module), model_version=version)
    return result.as_numpy("OUTPUT0")


def connected(server):
    """Both clients, with their modules."""
    return [(module, module.InferenceServerClient(server.address)) for module in CLIENTS]


def test_golden_answers_in_every_form(terrace, golden):
    check_golden(terrace, golden, [name for name in MODELS if name != "deepfm"], True)


def test_golden_answers_for_keys_of_32_bits(terrace, golden):
    check_golden(terrace, golden, ["deepfm"], False)


def check_golden(terrace, golden, names, has_long_keys):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        models = [GoldenModel(golden, folder / "models", name) for name in names]
        write_ps(folder / "ps.json", models, has_long_keys)
        with serving(terrace, folder / "models", "--ps", folder / "ps.json") as server:
            (_, http), (_, grpc) = connected(server)
            for model in models:
                for case in model.cases():
                    check_every_form(http, grpc, model.name, case)
            for client in (http, grpc):
                assert client.is_server_ready() and client.is_model_ready(names[0])
            check_metadata(http, grpc, models, has_long_keys)
            check_statistics(http, grpc, models[-1])
            asyncio.run(check_aio(server, models))
            check_flat_shapes(http, models[0])
            check_refusals(server, models[0])


def write_ps(path, models, has_long_keys=True, entry={}, **settings):
    entries = [model.ps_entry() | entry for model in models]
    path.write_text(json.dumps({"supportlonglong": has_long_keys, "models": entries, **settings}))


def check_every_form(http, grpc, name, case):
    same(http.infer(name, case.inputs(http_client)), case.want)
    as_json = case.inputs(http_client, binary_data=False)
    for outputs in (
        [http_client.InferRequestedOutput("OUTPUT0", binary_data=False)],
        [http_client.InferRequestedOutput("OUTPUT0", binary_data=True)],
    ):
        same(http.infer(name, as_json, outputs=outputs), case.want)
    for algorithm in ("gzip", "deflate"):
        result = http.infer(
            name,
            case.inputs(http_client),
            request_compression_algorithm=algorithm,
            response_compression_algorithm=algorithm,
        )
        same(result, case.want)
    response = http.infer(name, case.inputs(http_client)).get_response()
    equal(response["parameters"]["NumSample"], len(case.want))
    same(grpc.infer(name, case.inputs(grpc_client)), case.want)
    for algorithm in ("gzip", "deflate"):
        result = grpc.infer(name, case.inputs(grpc_client), compression_algorithm=algorithm)
        same(result, case.want)
    pending = http.async_infer(name, case.inputs(http_client))
    same(pending.get_result(), case.want)


def check_metadata(http, grpc, models, has_long_keys):
    keys = "INT64" if has_long_keys else "UINT32"
    for model in models:
        about = http.get_model_metadata(model.name)
        names = [(it["name"], it["datatype"], it["shape"]) for it in about["inputs"]]
        wanted = [("DES", "FP32"), ("CATCOLUMN", keys), ("ROWINDEX", "INT32")]
        equal(names, [(name, kind, [-1]) for name, kind in wanted])
        equal((about["platform"], about["versions"]), ("hugectr", ["1"]))
        equal(grpc.get_model_metadata(model.name).inputs[1].datatype, keys)
        config = http.get_model_config(model.name)
        equal(config["parameters"]["gpucacheper"]["string_value"], "0.5")
        config = grpc.get_model_config(model.name).config
        equal(config.parameters["label_dim"].string_value, "1")
    listed = [(it["name"], it["version"], it["state"]) for it in http.get_model_repository_index()]
    equal(sorted(listed), [(model.name, "1", "READY") for model in models])


def check_statistics(http, grpc, model):
    (stats,) = http.get_inference_statistics(model.name)["model_stats"]
    cases = model.cases()
    equal(stats["inference_stats"]["success"]["count"], 10 * len(cases))
    equal(stats["inference_count"], 10 * sum(len(case.want) for case in cases))
    sizes = {it["batch_size"] for it in stats["batch_stats"]}
    equal(sizes, {len(case.want) for case in cases})
    assert stats["inference_stats"]["compute_infer"]["ns"] > 0
    by_grpc = grpc.get_inference_statistics(model.name).model_stats[0]
    equal(by_grpc.execution_count, stats["execution_count"])


async def check_aio(server, models):
    http = http_aio.InferenceServerClient(server.address)
    grpc = grpc_aio.InferenceServerClient(server.address)
    async with http, grpc:
        calls = []
        for model in models:
            for case in model.cases():
                calls.append((http.infer(model.name, case.inputs(http_client)), case))
                calls.append((grpc.infer(model.name, case.inputs(grpc_client)), case))
        results = await asyncio.gather(*(call for call, _ in calls))
        for result, (_, case) in zip(results, calls):
            same(result, case.want)


def check_flat_shapes(http, model):
    """As other clients may have them."""
    case = model.cases()[0]
    inputs = case.inputs(http_client)
    for tensor, numbers in zip(inputs, [case.dense, case.keys, case.offsets]):
        tensor.set_shape([len(numbers)])
    same(http.infer(model.name, inputs), case.want)


def check_refusals(server, model):
    case = model.cases()[0]
    longer = np.concatenate([case.offsets, case.offsets[-1:]])
    negative = case.offsets.copy()
    negative[1] = -1
    overflowing = case.offsets.copy()
    overflowing[-1] = 2**31 - 1
    falling = case.offsets.copy()
    falling[1] = falling[-1] + 1
    for module, client in connected(server):
        for changed, parts in [
            ({"dense": case.dense[:-1]}, [f"{len(case.dense) - 1}"]),
            ({"keys": case.keys[:-1]}, [f"{len(case.keys) - 1}", f"{len(case.keys)}"]),
            ({"offsets": longer}, [f"{len(longer)}"]),
            ({"offsets": negative}, ["-1"]),
            ({"offsets": overflowing}, [f"{2**31 - 1}"]),
            ({"offsets": falling}, []),
            ({"offsets": case.offsets[:0]}, []),
            (many_samples(case), ["2000"]),
        ]:
            wrong = model.cases()[0]
            for name, numbers in changed.items():
                setattr(wrong, name, numbers)
            raises(
                InferenceServerException,
                parts,
                lambda: client.infer(model.name, wrong.inputs(module)),
            )
        inputs = case.inputs(module)
        for kept, parts in [(inputs[1:], []), (inputs[:2], ["ROWINDEX"])]:
            raises(InferenceServerException, parts, lambda: client.infer(model.name, kept))
        floats = module.InferInput("CATCOLUMN", [1], "FP32")
        floats.set_data_from_numpy(np.array([1], dtype=np.float32))
        raises(
            InferenceServerException,
            ["CATCOLUMN", "FP32"],
            lambda: client.infer(model.name, [inputs[0], floats, inputs[2]]),
        )
        same(client.infer(model.name, inputs), case.want)


def many_samples(case):
    """2,000 times the first sample of a model with one table."""
    slots = (len(case.offsets) - 1) // len(case.want)
    offsets = np.arange(2000 * slots + 1, dtype=np.int32)
    keys = np.resize(case.keys, 2000 * slots)
    dense = np.resize(case.dense, 2000 * len(case.dense) // len(case.want))
    return {"dense": dense, "keys": keys, "offsets": offsets}


def test_requests_are_joined_and_instances_share_them(terrace, golden):
    with tempfile.TemporaryDirectory() as folder:
        model = GoldenModel(golden, folder, "dlrm")
        config = model.config.replace("count: 1 kind: KIND_GPU gpus: [ 0 ]", "count: 2 kind: KIND_CPU")
        batching = "dynamic_batching { max_queue_delay_microseconds: 20000 }\n"
        model.write_config(config + batching)
        case = model.cases()[0]
        with serving(terrace, folder) as server:
            asyncio.run(ask_at_once(server, model.name, case, 200))
            http = http_client.InferenceServerClient(server.address)
            (stats,) = http.get_inference_statistics(model.name)["model_stats"]
            equal(stats["inference_count"], 200 * len(case.want))
            assert stats["execution_count"] < 100, stats["execution_count"]


async def ask_at_once(server, model, case, count):
    async with grpc_aio.InferenceServerClient(server.address) as client:
        calls = [client.infer(model, case.inputs(grpc_client)) for _ in range(count)]
        for result in await asyncio.gather(*calls):
            same(result, case.want)


class Traffic:
    """Clients that ask one after the other, and note what they get."""

    def __init__(self, server, model, case, clients=4):
        self.server, self.model, self.case = server, model, case
        self.answers, self.problems = [], []
        self.is_over = threading.Event()
        bodies = [threading.Thread(target=self.ask, args=[CLIENTS[at % 2]]) for at in range(clients)]
        self.threads = bodies

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def ask(self, module):
        client = module.InferenceServerClient(self.server.address)
        while not self.is_over.is_set():
            try:
                found = answer(client, module, self.model, self.case)
                self.answers.append((time.monotonic(), found))
            except InferenceServerException as error:
                self.problems.append(str(error))


def wait_for_answers(traffic, more):
    wanted = len(traffic.answers) + more
    deadline = time.monotonic() + 60
    while len(traffic.answers) < wanted:
        assert time.monotonic() < deadline, "no answers come"
        time.sleep(0.01)


def test_versions_are_replaced_whole_under_traffic(terrace, golden):
    with tempfile.TemporaryDirectory() as folder:
        model = GoldenModel(golden, folder, "dlrm")
        case = model.cases()[1]
        every_policy = "version_policy { all { } }\n"
        first_only = model.config
        with serving(terrace, folder) as server:
            (_, http), (_, grpc) = connected(server)
            model.add_version(2, rows=1.5, bias=0.7)
            model.write_config(first_only + every_policy)
            http.load_model("dlrm")
            old = answer(http, http_client, "dlrm", case, "1")
            new = answer(grpc, grpc_client, "dlrm", case, "2")
            assert np.abs(old - case.want).max() <= TOLERANCE
            assert np.abs(old - new).min() > 1e-3, "the versions must be told apart"
            equal(answer(http, http_client, "dlrm", case).tolist(), new.tolist())
            model.write_config(first_only + "version_policy { specific { versions: [1] } }\n")
            http.load_model("dlrm")
            raises(
                InferenceServerException,
                ["no version 2"],
                lambda: answer(http, http_client, "dlrm", case, "2"),
            )
            with Traffic(server, "dlrm", case) as traffic:
                for version in [2, 1, 2, 1]:
                    wait_for_answers(traffic, 20)
                    policy = f"version_policy {{ specific {{ versions: [{version}] }} }}\n"
                    model.write_config(first_only + policy)
                    (http if version == 2 else grpc).load_model("dlrm")
                    since = time.monotonic()
                    wanted = new if version == 2 else old
                    wait_for_answers(traffic, 40)
                    # Whoever asks after a load gets what was loaded.
                    equal(answer(grpc, grpc_client, "dlrm", case).tolist(), wanted.tolist())
                check_whole(traffic, old, new)
            # A load that fails changes nothing.
            model.write_config('name: "dlrm" backend: "hugectr" instance_group [ { kind: ')
            raises(InferenceServerException, ["config.pbtxt"], lambda: http.load_model("dlrm"))
            same(http.infer("dlrm", case.inputs(http_client)), case.want)
            http.unload_model("dlrm")
            raises(
                InferenceServerException,
                ["dlrm"],
                lambda: answer(http, http_client, "dlrm", case),
            )
            states = {it["name"]: it["state"] for it in http.get_model_repository_index()}
            equal(states, {"dlrm": "UNAVAILABLE"})
            model.write_config(first_only)
            grpc.load_model("dlrm")
            equal(answer(http, http_client, "dlrm", case).tolist(), new.tolist())


def check_whole(traffic, old, new):
    equal(traffic.problems, [])
    seen = set()
    for _, found in traffic.answers:
        kinds = [kind for kind, want in [("old", old), ("new", new)] if (found == want).all()]
        assert kinds, "an answer is neither wholly old nor wholly new"
        seen.add(kinds[0])
    equal(seen, {"old", "new"})


def test_models_come_with_their_files_and_go(terrace, golden):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
        model = GoldenModel(golden, folder, "wdl")
        other = GoldenModel(golden, elsewhere, "dcn")
        with serving(terrace, folder) as server:
            (_, http), (_, grpc) = connected(server)
            raises(InferenceServerException, ["no model", "dcn"], lambda: http.load_model("dcn"))
            # All files with the request, as tritonclient sends them.
            files = {
                f"file:{path.relative_to(other.folder)}": path.read_bytes()
                for path in other.folder.rglob("*")
                if path.is_file() and path.name != "config.pbtxt"
            }
            config = json.dumps({"backend": "hugectr", "max_batch_size": 64})
            for client in (http, grpc):
                client.load_model("dcn", config=config, files=files)
            small = [case for case in other.cases() if len(case.want) <= 64]
            for case in small:
                same(grpc.infer("dcn", case.inputs(grpc_client)), case.want)
            equal(http.get_model_config("dcn")["max_batch_size"], 64)
            # A configuration of its own for files that are there.
            http.load_model("wdl", config=json.dumps({"max_batch_size": 7}))
            equal(http.get_model_config("wdl")["max_batch_size"], 7)
            for case in model.cases():
                if len(case.want) <= 7:
                    same(http.infer("wdl", case.inputs(http_client)), case.want)
            http.unload_model("dcn")
            raises(
                InferenceServerException,
                ["dcn"],
                lambda: grpc.infer("dcn", small[0].inputs(grpc_client)),
            )


def test_models_that_come_and_go_leave_nothing(terrace, golden):
    """A hundred loads and unloads under traffic."""
    with tempfile.TemporaryDirectory() as folder:
        model = GoldenModel(golden, folder, "dlrm")
        case = model.cases()[0]
        with serving(terrace, folder) as server:
            others = [GoldenModel(golden, folder, "wdl", f"wdl{at}") for at in range(10)]
            http = http_client.InferenceServerClient(server.address)
            memory = []
            with Traffic(server, "dlrm", case, clients=2) as traffic:
                for _ in range(10):
                    for other in others:
                        http.load_model(other.name)
                    for other in others:
                        http.unload_model(other.name)
                    memory.append(settled_mib(server.base))
            equal(traffic.problems, [])
            for _, found in traffic.answers:
                assert np.abs(found - case.want).max() <= TOLERANCE
            print(f"MiB after ten models each: {[round(mib) for mib in memory]}")
            assert memory[-1] - memory[2] < 24, memory


def settled_mib(base):
    """Models that are unloaded go on threads of their own."""
    low = resident_mib(base)
    for _ in range(10):
        time.sleep(0.05)
        low = min(low, resident_mib(base))
    return low


def test_what_cannot_be_loaded_is_said(terrace, golden):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
        model = GoldenModel(golden, folder, "dcn")
        secret = Path(elsewhere) / "secret"
        secret.write_text("{}")
        with serving(terrace, folder) as server:
            (_, http), (_, grpc) = connected(server)
            network = model.folder / "1" / "dcn.json"
            text = network.read_text()
            kept = model.config
            (dense,) = model.folder.glob("1/*_dense_*.model")
            weights = dense.read_bytes()

            def refused(*parts):
                for client in (http, grpc):
                    raises(InferenceServerException, parts, lambda: client.load_model("dcn"))
                case = model.cases()[0]
                same(http.infer("dcn", case.inputs(http_client)), case.want)

            network.write_text(text.replace('"MultiCross"', '"Teleport"'))
            refused("Teleport")
            network.write_text(text[:-20])
            refused("dcn.json")
            network.write_text(text)
            dense.write_bytes(weights[:-4])
            refused("dense")
            dense.write_bytes(weights)
            for wrong, part in [
                ('backend: "onnxruntime"', "onnxruntime"),
                ("max_batch_size: -3", "-3"),
                ("nothing: 1", "nothing"),
                ('name: "other"', "other"),
                ('parameters { key: "slots" value { string_value: "27" } }', "27"),
                ("instance_group [ { kind: KIND_CPU count: 2000000 } ]", "2000000"),
            ]:
                model.write_config(wrong)
                refused(part)
            model.write_config(kept)
            (model.folder / "1" / "out.json").symlink_to(secret)
            refused("out of the repository")
            (model.folder / "1" / "out.json").unlink()
            http.load_model("dcn")


def test_tables_alone_and_the_documents_example(terrace, golden):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = GoldenModel(golden, folder / "models", "dlrm")
        table = TableFiles(folder / "rows", rows=100, dim=4, seed=5)
        hps = folder / "models" / "rows"
        (hps / "1").mkdir(parents=True)
        (hps / "config.pbtxt").write_text('name: "rows" backend: "hps"')
        entry = {
            "model": "rows",
            "sparse_files": [str(table.folder)],
            "default_value_for_each_table": [0.5],
            "deployed_device_list": [0],
        }
        ps = {"supportlonglong": True, "models": [entry, model.ps_entry()]}
        (folder / "ps.json").write_text(json.dumps(ps))
        with serving(terrace, folder / "models", "--ps", folder / "ps.json") as server:
            http = http_client.InferenceServerClient(server.address)
            for case in model.cases():
                same(http.infer("dlrm", case.inputs(http_client)), case.want)
            with urllib.request.urlopen(f"{server.base}/openapi.json") as response:
                schemas = json.load(response)["components"]["schemas"]
            example = json.dumps(schemas["kserve.InferRequest"]["example"]).encode()
            kind = {"Content-Type": "application/json"}
            path = f"{server.base}/v2/models/rows/infer"
            with urllib.request.urlopen(urllib.request.Request(path, example, kind)) as response:
                (output,) = json.load(response)["outputs"]
            rows = [table.rows.get(key, [0.5] * 4) for key in (7, 8, 9)]
            equal(output["data"], [number for row in rows for number in row])
            with urllib.request.urlopen(f"{server.base}/v1/tables") as response:
                names = [name for it in json.load(response)["data"] for name in it["names"]]
            equal(sorted(names), ["dlrm.sparse_embedding1", "rows.sparse_embedding0"])
            http.unload_model("rows")
            raises(InferenceServerException, ["rows"], lambda: http.get_model_metadata("rows"))


# Exported with the weights of these models, whatever golden set is tested.
TESTDATA = Path(__file__).resolve().parents[2] / "testdata"


def test_the_dense_part_may_be_an_onnx_file(terrace, _golden):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        repository = folder / "models"
        models = [GoldenModel(TESTDATA / "ctr", repository, name) for name in ("dlrm", "wdl")]
        for model in models:
            replace_network(model, f"{model.name}.onnx")
        write_ps(folder / "ps.json", models)
        with serving(terrace, repository, "--ps", folder / "ps.json") as server:
            for module, client in connected(server):
                for model in models:
                    for case in model.cases():
                        same(client.infer(model.name, case.inputs(module)), case.want)
            (_, http), (_, grpc) = connected(server)
            wdl = models[1]
            kept = wdl.config
            for wrong, parts in [
                (kept.replace('"13"', '"12"'), ["des_feature_num", "12"]),
                (kept + 'parameters { key: "combiner" value { string_value: "max" } }', ["max"]),
            ]:
                wdl.write_config(wrong)
                raises(InferenceServerException, parts, lambda: http.load_model("wdl"))
            wdl.write_config(kept)
            shutil.copy(TESTDATA / "ctr_onnx" / "one_sample.onnx", wdl.folder / "1" / "wdl.onnx")
            raises(InferenceServerException, ["wdl.onnx"], lambda: grpc.load_model("wdl"))
            case = wdl.cases()[0]
            same(http.infer("wdl", case.inputs(http_client)), case.want)


def replace_network(model, name):
    """An ONNX file instead of HugeCTR's network and its weights."""
    folder = model.folder / "1"
    (folder / f"{model.name}.json").unlink()
    for dense in folder.glob("*_dense_*"):
        dense.unlink()
    shutil.copy(TESTDATA / "ctr_onnx" / name, folder / name)
    model.write_config(model.config.replace(f"1/{model.name}.json", f"1/{name}"))


if __name__ == "__main__":
    run(globals(), "TERRACE GOLDEN")
