"""NVIDIA's clients for Triton, unchanged, against tables and a recommender: HTTP and gRPC, at once and
with asyncio.

usage: kserve_client.py TERRACE MODEL
"""

import asyncio
import contextlib
import json
import queue
import random
import tempfile
import urllib.request
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http_client
import tritonclient.http.aio as http_aio
from checks import drawn_seed, equal, raises, run, samples
from ranked_users import ITEMS, RankedUser, ask, logits
from table_files import TableFiles
from tiered_server import TieredServer
from tritonclient.utils import InferenceServerException

OPTIONS = ["--device", "cpu", "--threads", 2, "--ps-threads", 2, "--kv-memory", "8MiB"]
DEFAULTS = [0.25, -1.0]


class Service:
    """A server of a recommender and of model `wide`, which has two tables of other widths."""

    def __init__(self, terrace, model, folder, *options):
        folder = Path(folder)
        self.tables = [
            TableFiles(folder / "a", rows=300, dim=8, seed=1),
            TableFiles(folder / "b", rows=200, dim=3, seed=2),
        ]
        entry = {
            "model": "wide",
            "sparse_files": [str(table.folder) for table in self.tables],
            # Not in the order of the alphabet: that of the file is meant.
            "embedding_table_names": ["second", "first"],
            "default_value_for_each_table": DEFAULTS,
            "deployed_device_list": [0],
            "gpucache": False,
        }
        config = {"supportlonglong": True, "models": [entry]}
        (folder / "ps.json").write_text(json.dumps(config))
        self.server = TieredServer(
            terrace, f"ranker={model}", "--ps", folder / "ps.json", *OPTIONS, *options
        )
        self.base = self.server.base
        self.address = self.base.removeprefix("http://")

    def rows(self, keys):
        """What the model must give for keys of both tables."""
        given = zip(self.tables, DEFAULTS, keys)
        rows = [
            table.rows.get(key, [default] * table.dim)
            for table, default, of_table in given
            for key in of_table
        ]
        return np.array([number for row in rows for number in row], dtype=np.float32)


@contextlib.contextmanager
def service(terrace, model, *options):
    with tempfile.TemporaryDirectory() as folder:
        started = Service(terrace, model, folder, *options)
        with started.server:
            yield started


def key_inputs(client, keys, shape=None, **how):
    flat = np.array([key for of_table in keys for key in of_table], dtype=np.int64)
    counts = np.array([len(of_table) for of_table in keys], dtype=np.int32)
    flat = flat.reshape(shape or [-1])
    inputs = [
        client.InferInput("KEYS", list(flat.shape), "INT64"),
        client.InferInput("NUMKEYS", list(counts.shape), "INT32"),
    ]
    inputs[0].set_data_from_numpy(flat, **how)
    inputs[1].set_data_from_numpy(counts, **how)
    return inputs


def drawn_keys(tables, chance, most=50):
    """Some of each table, some twice, some that are not there."""
    return [
        chance.choices([*table.keys, (1 << 31) + 7], k=chance.randrange(most)) for table in tables
    ]


def test_tables_answer_every_client_in_every_form(terrace, model):
    chance = random.Random(drawn_seed())
    with service(terrace, model) as served:
        for _ in range(5):
            keys = drawn_keys(served.tables, chance)
            want = served.rows(keys)
            with http_client.InferenceServerClient(served.address) as client:
                check_http(client, keys, want)
            with grpc_client.InferenceServerClient(served.address) as client:
                check_grpc(client, keys, want)
        asyncio.run(check_aio(served, keys, want))


def same(result, want, name="OUTPUT0"):
    found = result.as_numpy(name)
    equal((found.dtype, found.shape), (np.float32, want.shape))
    assert np.array_equal(found, want), f"{found} is not {want}"


def check_http(client, keys, want):
    total = sum(map(len, keys))
    for binary_in in [True, False]:
        inputs = key_inputs(http_client, keys, [1, total], binary_data=binary_in)
        same(client.infer("wide", inputs), want)
        for binary_out in [True, False]:
            output = http_client.InferRequestedOutput("OUTPUT0", binary_data=binary_out)
            for compression in [None, "gzip", "deflate"]:
                result = client.infer(
                    "wide",
                    inputs,
                    outputs=[output],
                    model_version="1",
                    request_id="r-1",
                    timeout=60_000_000,
                    priority=1,
                    request_compression_algorithm=compression,
                    response_compression_algorithm=compression,
                )
                same(result, want)
                response = result.get_response()
                names = ("wide", "1", "r-1")
                equal(tuple(response[it] for it in ("model_name", "model_version", "id")), names)
    asked = client.async_infer("wide", key_inputs(http_client, keys))
    same(asked.get_result(), want)
    assert "id" not in client.infer("wide", inputs).get_response()


def check_grpc(client, keys, want):
    inputs = key_inputs(grpc_client, keys)
    for compression in [None, "gzip", "deflate"]:
        result = client.infer(
            "wide",
            inputs,
            outputs=[grpc_client.InferRequestedOutput("OUTPUT0")],
            request_id="r-2",
            compression_algorithm=compression,
            client_timeout=60,
        )
        same(result, want)
        equal((result.get_response().id, result.get_response().model_version), ("r-2", "1"))
    answers = queue.Queue()
    client.async_infer("wide", inputs, lambda result, error: answers.put((result, error)))
    result, error = answers.get(timeout=60)
    equal(error, None)
    same(result, want)
    client.start_stream(lambda result, error: answers.put((result, error)))
    wrong = key_inputs(grpc_client, [[1], []])
    for index, given in enumerate([inputs, wrong[:1], inputs]):
        client.async_stream_infer("wide", given, request_id=str(index))
    for index in range(3):
        result, error = answers.get(timeout=60)
        if index == 1:
            assert "NUMKEYS" in str(error), error
        else:
            equal(error, None)
            same(result, want)
            equal(result.get_response().id, str(index))
    client.stop_stream()


async def check_aio(served, keys, want):
    async with http_aio.InferenceServerClient(served.address) as client:
        assert await client.is_server_ready() and await client.is_model_ready("wide")
        inputs = key_inputs(http_client, keys)
        results = await asyncio.gather(*(client.infer("wide", inputs) for _ in range(20)))
        for result in results:
            same(result, want)
    async with grpc_aio.InferenceServerClient(served.address) as client:
        assert await client.is_server_ready() and await client.is_model_ready("wide")
        inputs = key_inputs(grpc_client, keys)
        results = await asyncio.gather(*(client.infer("wide", inputs) for _ in range(20)))
        for result in results:
            same(result, want)

        async def requests():
            for index in range(4):
                yield {"model_name": "wide", "inputs": inputs, "request_id": str(index)}

        ids = []
        async for result, error in client.stream_infer(requests()):
            equal(error, None)
            same(result, want)
            ids.append(result.get_response().id)
        equal(ids, ["0", "1", "2", "3"])


def test_models_say_what_they_are_and_what_they_did(terrace, model):
    with service(terrace, model) as served:
        http = http_client.InferenceServerClient(served.address)
        grpc = grpc_client.InferenceServerClient(served.address)
        for client in [http, grpc]:
            assert client.is_server_live() and client.is_server_ready()
            assert client.is_model_ready("wide") and client.is_model_ready("ranker", "1")
            assert not client.is_model_ready("none") and not client.is_model_ready("wide", "2")
        server = http.get_server_metadata()
        equal(server["name"], "terrace")
        equal(grpc.get_server_metadata(as_json=True), server)
        metadata = http.get_model_metadata("wide")
        equal((metadata["versions"], metadata["platform"]), (["1"], "hps"))
        equal([it["name"] for it in metadata["inputs"]], ["KEYS", "NUMKEYS"])
        other = grpc.get_model_metadata("ranker")
        equal([it.name for it in other.outputs], ["logits", "task_ids"])
        equal(list(other.outputs[0].shape), [-1, 3])
        config = http.get_model_config("wide")
        equal((config["name"], config["backend"], config["max_batch_size"]), ("wide", "hps", 0))
        equal(config["input"][0]["dims"], [-1])
        equal(grpc.get_model_config("wide").config.input[1].name, "NUMKEYS")
        for _ in range(3):
            http.infer("wide", key_inputs(http_client, [[1], [2]]))
        raises(
            InferenceServerException,
            ["NUMKEYS"],
            lambda: http.infer("wide", key_inputs(http_client, [[1], [2]])[:1]),
        )
        [stats] = http.get_inference_statistics("wide")["model_stats"]
        equal((stats["inference_count"], stats["execution_count"]), (3, 3))
        counts = stats["inference_stats"]
        equal((counts["success"]["count"], counts["fail"]["count"]), (3, 1))
        [stats] = grpc.get_inference_statistics("wide", "1").model_stats
        equal((stats.inference_count, stats.inference_stats.success.count), (3, 3))
        assert stats.last_inference > 1_600_000_000_000
        equal(len(grpc.get_inference_statistics().model_stats), 2)
        index = http.get_model_repository_index()
        rows = {(row["name"], row["version"], row["state"]) for row in index}
        equal(rows, {("wide", "1", "READY"), ("ranker", "1", "READY")})
        equal({(row.name, row.state) for row in grpc.get_model_repository_index().models},
              {("wide", "READY"), ("ranker", "READY")})
        counted = {
            name: value
            for name, labels, value in samples(served.base)
            if labels.get("model") == "wide" and name.startswith("nv_")
        }
        equal(counted["nv_inference_request_success"], 3)
        equal(counted["nv_inference_request_failure"], 1)
        assert counted["nv_inference_request_duration_us"] > 0
        equal(http.get_system_shared_memory_status(), [])
        equal(len(grpc.get_cuda_shared_memory_status().regions), 0)
        http.unregister_system_shared_memory()
        grpc.unregister_cuda_shared_memory()
        equal(http.get_trace_settings(), {"trace_level": ["OFF"]})
        assert http.get_log_settings()["log_info"]


def test_errors_are_the_clients_own(terrace, model):
    with service(terrace, model) as served:
        http = http_client.InferenceServerClient(served.address)
        grpc = grpc_client.InferenceServerClient(served.address)
        for module, client, codes in [
            (http_client, http, {"missing": "404", "wrong": "400", "not here": "501"}),
            (
                grpc_client,
                grpc,
                {
                    "missing": "StatusCode.NOT_FOUND",
                    "wrong": "StatusCode.INVALID_ARGUMENT",
                    "not here": "StatusCode.UNIMPLEMENTED",
                },
            ),
        ]:
            inputs = key_inputs(module, [[1], [2]])
            shared = module.InferInput("KEYS", [1], "INT64")
            shared.set_shared_memory("region", 8)
            strange = module.InferInput("KEYZ", [1], "INT64")
            strange.set_data_from_numpy(np.array([1], dtype=np.int64))
            floats = module.InferInput("KEYS", [2], "FP32")
            floats.set_data_from_numpy(np.array([1, 2], dtype=np.float32))
            output = [module.InferRequestedOutput("NONE")]
            for kind, parts, call in [
                ("missing", ["no model", "none"], lambda: client.infer("none", inputs)),
                ("missing", ["no version 7"], lambda: client.infer("wide", inputs, "7")),
                ("wrong", ["no whole number"], lambda: client.infer("wide", inputs, "x")),
                ("wrong", ["KEYS"], lambda: client.infer("wide", [strange, inputs[1]])),
                ("wrong", ["KEYZ"], lambda: client.infer("wide", [*inputs, strange])),
                ("wrong", ["FP32"], lambda: client.infer("wide", [floats, inputs[1]])),
                ("wrong", ["NONE"], lambda: client.infer("wide", inputs, outputs=output)),
                ("not here", ["shared memory"], lambda: client.infer("wide", [shared])),
                ("not here", ["sequence_id"], lambda: client.infer("wide", inputs, sequence_id=7)),
                ("missing", ["none"], lambda: client.get_model_metadata("none")),
                ("not here", ["repository"], lambda: client.load_model("wide")),
                ("wrong", ["unloaded"], lambda: client.unload_model("wide")),
                (
                    "not here",
                    ["system shared memory"],
                    lambda: client.register_system_shared_memory("r", "/r", 8),
                ),
                (
                    "not here",
                    ["log_info"],
                    lambda: client.update_log_settings({"log_info": False}),
                ),
            ]:
                error = raises(InferenceServerException, parts, call)
                equal((kind, error.status()), (kind, codes[kind]))
        # Shapes and frames that lie, which the clients do not send by themselves.
        body, size = http_client.InferenceServerClient.generate_request_body(
            key_inputs(http_client, [[1], [2]])
        )
        for data, header in [(body[:-1], size), (body + b"x", size), (body, size + 1), (body, "a")]:
            request = urllib.request.Request(
                f"{served.base}/v2/models/wide/infer",
                data,
                {"Inference-Header-Content-Length": str(header)},
            )
            error = raises(urllib.error.HTTPError, [], lambda: urllib.request.urlopen(request))
            equal(error.code, 400)
            assert json.load(error)["error"]


def test_keys_are_required_of_both(terrace, model):
    with service(terrace, model, "--api-key", "secret") as served:
        headers = {"Authorization": "Bearer secret"}
        http = http_client.InferenceServerClient(served.address)
        assert http.is_server_ready()
        error = raises(InferenceServerException, ["key"], http.get_server_metadata)
        equal(error.status(), "401")
        equal(http.get_server_metadata(headers=headers)["name"], "terrace")
        http.infer("wide", key_inputs(http_client, [[1], [2]]), headers=headers)
        grpc = grpc_client.InferenceServerClient(served.address)
        assert grpc.is_server_live()
        error = raises(InferenceServerException, ["key"], grpc.get_server_metadata)
        equal(error.status(), "StatusCode.UNAUTHENTICATED")
        headers = {"authorization": "Bearer secret"}
        equal(grpc.get_server_metadata(headers=headers).name, "terrace")
        grpc.infer("wide", key_inputs(grpc_client, [[1], [2]]), headers=headers)


def jagged(client, users, names, with_totals=True, with_actions=True):
    """Users as NVIDIA's exported models take them."""
    features = [[[user.context[0]] for user, _ in users], [[user.context[1]] for user, _ in users]]
    features.append([user.items + candidates for user, candidates in users])
    ignored = [0] if with_actions else []
    features.append([user.actions + ignored * len(candidates) for user, candidates in users])
    arrays = [
        [number for feature in features for of_user in feature for number in of_user],
        [len(of_user) for feature in features for of_user in feature],
        [len(candidates) for _, candidates in users],
        [int(user.name) for user, _ in users],
        [len(user.context) + 2 * len(user.items) for user, _ in users],
    ]
    inputs = []
    for name, numbers in zip(names, arrays if with_totals else arrays[:4]):
        array = np.array(numbers, dtype=np.int64)
        inputs.append(client.InferInput(name, list(array.shape), "INT64"))
        inputs[-1].set_data_from_numpy(array)
    return inputs


NAMES = ["values", "lengths", "num_candidates", "user_ids", "total_history_lengths"]
NUMBERED = [f"INPUT__{index}" for index in range(5)]


def test_a_recommender_ranks_as_its_own_route_does(terrace, model):
    chance = random.Random(drawn_seed())
    with service(terrace, model) as served:
        http = http_client.InferenceServerClient(served.address)
        grpc = grpc_client.InferenceServerClient(served.address)
        users = []
        for number in range(4):
            user = RankedUser(str(number), chance)
            user.grow()
            users.append((user, chance.sample(ITEMS, 1 + number * 3)))
        want = []
        for user, candidates in users:
            body = {"model": "ranker", "user": f"other-{user.name}", "context": user.context,
                    "items": user.items, "actions": user.actions, "candidates": candidates}
            want += logits(ask(served.base, "POST", "/v1/rank", body))
        want = np.array(want, dtype=np.float32)
        for module, client in [(http_client, http), (grpc_client, grpc)]:
            for names, out in [(NAMES, ["logits", "task_ids"]), (NUMBERED, ["OUTPUT__0", "OUTPUT__1"])]:
                for given in [{}, {"with_totals": False}, {"with_actions": False}]:
                    inputs = jagged(module, users, names, **given)
                    result = client.infer("ranker", inputs)
                    same(result, want, out[0])
                    equal(result.as_numpy(out[1]).shape, (0,))
                outputs = [module.InferRequestedOutput(name) for name in out]
                same(client.infer("ranker", inputs, outputs=outputs), want, out[0])
            best = [module.InferRequestedOutput("logits", class_count=1)]
            found = client.infer("ranker", jagged(module, users, NAMES), outputs=best)
            classes = [int(text.split(b":")[1]) for [text] in found.as_numpy("logits")]
            equal(classes, want.argmax(axis=1).tolist())
        known = ask(served.base, "GET", "/v1/users?limit=50&model=ranker")["data"]
        cached = {user["user"]: user["cached_tokens"] for user in known}
        for user, _ in users:
            equal(cached[user.name], 2 + 2 * len(user.items))
        for change, parts in [
            ({"lengths": [1]}, ["lengths has 1 numbers", "4 features"]),
            ({"num_candidates": [50, 1, 1, 1]}, ["user 0"]),
            ({"total_history_lengths": [0, 0, 0, 0]}, ["user 0", "no history of this model"]),
            ({"values": [1]}, ["lengths[", "values are left"]),
        ]:
            inputs = jagged(http_client, users, NAMES)
            for name, numbers in change.items():
                array = np.array(numbers, dtype=np.int64)
                wrong = http_client.InferInput(name, list(array.shape), "INT64")
                wrong.set_data_from_numpy(array)
                inputs[NAMES.index(name)] = wrong
            raises(InferenceServerException, parts, lambda: http.infer("ranker", inputs))


if __name__ == "__main__":
    run(globals(), "TERRACE MODEL")
