"""Tables of a parameter server over HTTP: the rows of the files, whatever form the configuration has.

usage: table_service.py TERRACE SAMPLES

SAMPLES is the folder with the configurations of HugeCTR's document.
"""

import json
import subprocess
import tempfile
from pathlib import Path

from checks import equal, metrics, raises, run, samples
from ranked_users import Refused, ask
from redis_cluster import RedisCluster, wait_until
from table_files import TableFiles
from tiered_server import TieredServer

OPTIONS = ["--device", "cpu", "--ps-threads", 2]
TOML = """supportlonglong = true
[persistent_db]
type = "embedded"
path = "rows"
[[models]]
model = "dcn"
sparse_files = ["files"]
embedding_table_names = ["emb"]
default_value_for_each_table = [0.25]
deployed_device_list = [0]
"""


def configuration(**model):
    entry = {
        "model": "dcn",
        "sparse_files": ["files"],
        "embedding_table_names": ["emb"],
        "default_value_for_each_table": [0.25],
        "deployed_device_list": [0],
    }
    persistent = {"type": "embedded", "path": "rows"}
    return {"supportlonglong": True, "persistent_db": persistent, "models": [entry | model]}


def test_rows_are_those_of_the_files_in_json_toml_and_settings(terrace, _):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        files = TableFiles(folder / "files")
        (folder / "ps.json").write_text(json.dumps(configuration()))
        (folder / "ps.toml").write_text(TOML)
        inside = TOML.replace("[persistent_db]", "[ps.persistent_db]")
        inside = "[ps]\n" + inside.replace("[[models]]", "[[ps.models]]")
        (folder / "settings.toml").write_text(inside)
        for options in [
            ["--ps", folder / "ps.json"],
            ["--ps", folder / "ps.toml"],
            ["--config", folder / "settings.toml"],
        ]:
            with TieredServer(terrace, None, *options, *OPTIONS) as server:
                files.check(server.base, "dcn.emb", default=0.25)
                files.check(server.base, "emb", default=0.25)
                [table] = ask(server.base, "GET", "/v1/tables")["data"]
                equal([level["level"] for level in table["levels"]], ["ram", "embedded"])
                equal(table["levels"][0]["rows"], len(files.keys))
                equal((table["names"], table["dim"]), (["dcn.emb"], files.dim))
                now = metrics(server.base)
                assert now["terrace_table_lookups_total"] >= 4, now
                equal(now["terrace_table_level_errors_total"], 0)
                equal(ask(server.base, "GET", "/engine_check"), {"status": "Running"})
                server.stop()


def test_hints_warm_the_hot_cache_and_bad_requests_are_refused(terrace, _):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        files = TableFiles(folder / "files")
        cold = {"init_ec": False, "gpucacheper": 1.0, "hit_rate_threshold": 1.1}
        (folder / "ps.json").write_text(json.dumps(configuration(**cold)))
        with TieredServer(terrace, None, "--ps", folder / "ps.json", *OPTIONS) as server:
            lookup, prefetch = "/v1/tables/emb/lookup", "/v1/tables/emb/prefetch"
            keys = files.keys[:10]
            hinted = ask(server.base, "POST", prefetch, {"keys": keys})
            equal((hinted["table"], hinted["unique_keys"]), ("dcn.emb", 10))

            def hits():
                return ask(server.base, "POST", lookup, {"keys": keys})["lookup"]["cache_hits"]

            wait_until("rows are in the hot cache", lambda: hits() == 10)
            for body, parts in [
                ({}, ["keys is missing"]),
                ({"keys": [1.5]}, ["whole numbers"]),
                ({"keys": [1] * 65_537}, ["65537 items", "65536"]),
                ({"keys": [1 << 63]}, ["whole numbers"]),
                ({"keys": [1], "encoding_format": "x"}, ["base64"]),
                ({"keys": [1], "rows": 1}, ["unknown field"]),
            ]:
                error = raises(Refused, parts, lambda: ask(server.base, "POST", lookup, body))
                equal(error.status, 400)
            unknown = "/v1/tables/none/lookup"
            one = {"keys": [1]}
            error = raises(Refused, ["dcn.emb"], lambda: ask(server.base, "POST", unknown, one))
            equal((error.status, error.error["code"]), (404, "table_not_found"))


def test_wrong_starts_say_what_is_wrong(terrace, _):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        TableFiles(folder / "files")
        for change, options, parts in [
            ({"sparse_files": ["none"]}, [], ["table hps_et.dcn.emb", "none/key"]),
            ({"gpucacheper": 2}, [], ["models[0].gpucacheper", "2"]),
            ({"embedding_vecsize_per_table": [7]}, [], ["emb_vector", "7"]),
            ({"sparse_files": ["s3://b/k"]}, [], ["s3://b/k"]),
            ({}, ["--ps-ram-budget", "1GiB"], ["placement"]),
            ({}, ["--model-name", "a"], ["--model-name"]),
        ]:
            (folder / "ps.json").write_text(json.dumps(configuration(**change)))
            command = [terrace, "serve", "--port", 0, "--ps", folder / "ps.json", *options]
            ended = subprocess.run([str(word) for word in command], capture_output=True, text=True)
            assert ended.returncode in (1, 2), f"{change}: {ended}"
            for part in parts:
                assert part in ended.stderr, f"{change}: no {part!r} in {ended.stderr}"
        command = [terrace, "serve", "--ps-threads", "1"]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert "--ps-threads has nothing to act on" in ended.stderr, ended.stderr


def test_the_samples_of_the_document_are_served(terrace, folder_of_samples):
    for name in ["document_redis", "document_rocksdb", "document_hierarchy"]:
        with tempfile.TemporaryDirectory() as folder, RedisCluster() as cluster:
            folder = Path(folder)
            files = TableFiles(folder / "files")
            config = json.loads(Path(folder_of_samples, f"{name}.json").read_text())
            addresses = ";".join(f"127.0.0.1:{master.port}" for master in cluster.masters)
            if "distributed_db" in config:
                config["distributed_db"]["address"] = addresses
            if "peristent_db" in config:
                config["peristent_db"]["path"] = str(folder / "rows")
            config["models"][0]["sparse_files"] = [str(files.folder)]
            (folder / "ps.json").write_text(json.dumps(config))
            with TieredServer(terrace, None, "--ps", folder / "ps.json", *OPTIONS) as server:
                [table] = ask(server.base, "GET", "/v1/tables")["data"]
                equal(table["key_type"], "uint32")
                [table] = table["names"]
                files.check(server.base, table)
                error = raises(
                    Refused,
                    ["key -1 does not fit"],
                    lambda: ask(server.base, "POST", f"/v1/tables/{table}/lookup", {"keys": [-1]}),
                )
                equal((error.status, error.error["param"]), (400, "keys"))
                if name == "document_hierarchy":
                    check_without_redis(server.base, table, files, cluster)
                server.stop()


def check_without_redis(base, table, files, cluster):
    wait_until("Redis has the rows", lambda: cluster.records() >= 8)
    for master in cluster.masters:
        master.kill()
    for _ in range(5):
        files.check(base, table)
    broken = {
        labels["level"]
        for name, labels, value in samples(base)
        if name in ("terrace_table_level_suspended", "terrace_table_level_errors_total") and value
    }
    equal(broken, {"redis"})


if __name__ == "__main__":
    run(globals(), "TERRACE SAMPLES")
