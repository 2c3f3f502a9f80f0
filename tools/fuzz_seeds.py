"""Writes the good inputs of `fuzz/corpus`: small files and requests from which fuzzers start.

Inputs of several files have a line `=== name ===` in front of each.

    pip install gguf==0.19.0 numpy==2.4.6
    python tools/fuzz_seeds.py
"""

import io
import json
import struct
import zipfile
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "fuzz" / "corpus"
HIDDEN, FFN, VOCAB, KV = 32, 32, 16, 16

NAMES = {  # GGUF's name, Hugging Face's name, rows, columns
    "token_embd": ("embed_tokens", VOCAB, HIDDEN),
    "blk.0.attn_q": ("layers.0.self_attn.q_proj", HIDDEN, HIDDEN),
    "blk.0.attn_k": ("layers.0.self_attn.k_proj", KV, HIDDEN),
    "blk.0.attn_v": ("layers.0.self_attn.v_proj", KV, HIDDEN),
    "blk.0.attn_output": ("layers.0.self_attn.o_proj", HIDDEN, HIDDEN),
    "blk.0.ffn_gate": ("layers.0.mlp.gate_proj", FFN, HIDDEN),
    "blk.0.ffn_up": ("layers.0.mlp.up_proj", FFN, HIDDEN),
    "blk.0.ffn_down": ("layers.0.mlp.down_proj", HIDDEN, FFN),
}
NORMS = {
    "output_norm": "norm",
    "blk.0.attn_norm": "layers.0.input_layernorm",
    "blk.0.ffn_norm": "layers.0.post_attention_layernorm",
}
KINDS = [Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.F16, Kind.BF16, Kind.IQ4_NL]


def write(target, name, content):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def sections(**files):
    parts = []
    for name, content in files.items():
        content = content if isinstance(content, (bytes, str)) else json.dumps(content)
        content = content if isinstance(content, bytes) else content.encode()
        parts.append(b"=== %s ===\n%s\n" % (name.replace("__", ".").encode(), content))
    return b"".join(parts)


def gguf_bytes(writer):
    path = CORPUS / "seed.gguf"
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    content = path.read_bytes()
    path.unlink()
    return content


def llama_gguf(rope_scaling=False):
    writer = gguf.GGUFWriter(None, "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    if rope_scaling:
        writer.add_rope_dimension_count(HIDDEN // 2)
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(2.0)
    for (name, (_, rows, columns)), kind in zip(NAMES.items(), KINDS):
        if kind == Kind.IQ4_NL:
            stored = np.zeros((rows, columns // 32 * 18), np.uint8)
        else:
            stored = gguf.quants.quantize(np.full((rows, columns), 0.5, np.float32), kind)
        writer.add_tensor(f"{name}.weight", stored, raw_dtype=kind)
    for name in NORMS:
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, np.float32))
    return gguf_bytes(writer)


def k_weights_gguf():
    writer = gguf.GGUFWriter(None, "kinds")
    for kind in [Kind.Q2_K, Kind.Q3_K, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K]:
        writer.add_tensor(kind.name, np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8), raw_dtype=kind)
    return gguf_bytes(writer)


def config_json(**more):
    return {
        "model_type": "llama", "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": FFN,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
        "tie_word_embeddings": True, "hidden_act": "silu", "torch_dtype": "float16", **more,
    }  # fmt: skip


def safetensors(names):
    header, data = {}, b""
    for name, shape in names:
        content = np.full(shape, 0.5, np.float16).tobytes()
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    header = json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


def write_safetensors():
    matrices = [(f"model.{name}.weight", [rows, columns]) for name, rows, columns in NAMES.values()]
    names = matrices + [(f"model.{name}.weight", [HIDDEN]) for name in NORMS.values()]
    whole = safetensors(names)
    write("safetensors", "good-llama", sections(config__json=config_json(), model__safetensors=whole))
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    config = config_json(rope_scaling=yarn, sliding_window=8, head_dim=16)
    write("safetensors", "good-yarn", sections(config__json=config, model__safetensors=whole))
    shards = {name: "a.safetensors" if i < 4 else "b" for i, (name, _) in enumerate(names)}
    write("safetensors", "good-shards", sections(
        config__json=config_json(),
        model__safetensors__index__json={"weight_map": shards},
        a__safetensors=safetensors(names[:4]),
        b=safetensors(names[4:]),
    ))  # fmt: skip


def adapter_seed(modules, kind=None, **more):
    vectors = {"dora": "lora_magnitude_vector", "rms_norm": "lora_norm.weight"}
    rows_and_columns = {name.rsplit(".", 1)[-1]: shape for name, *shape in NAMES.values()} | {"lm_head": [VOCAB, HIDDEN]}
    tensors = []
    for module in modules:
        rows, columns = rows_and_columns[module]
        part = "mlp" if module in ("gate_proj", "up_proj", "down_proj") else "self_attn"
        path = module if module == "lm_head" else f"model.layers.0.{part}.{module}"
        front = f"base_model.model.{path}."
        tensors += [(front + "lora_A.weight", [2, columns]), (front + "lora_B.weight", [rows, 2])]
        tensors += [(front + vectors[kind], [rows])] if kind else []
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none", "target_modules": modules, **more}
    return sections(adapter_config__json=config, adapter_model__safetensors=safetensors(tensors))


def write_adapters():
    layer = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    write("adapter", "good-lora", adapter_seed(["q_proj", "v_proj", "lm_head"], modules_to_save=None))
    patterns = {"rank_pattern": {"q_proj|v_proj": 2}, "alpha_pattern": {r"layers\.0\..*": 3.5}, "use_rslora": True}
    write("adapter", "good-patterns", adapter_seed(layer, exclude_modules=["lm_head"], layers_to_transform=[0], **patterns))
    write("adapter", "good-dora", adapter_seed(layer, "dora", use_dora=True, init_lora_weights="gaussian"))
    write("adapter", "good-rms-norm", adapter_seed(["k_proj", "up_proj"], "rms_norm", terrace_lora_kind="rms_norm"))


def tokenizer_gguf(kind):
    writer = gguf.GGUFWriter(None, "llama")
    writer.add_tokenizer_model(kind)
    if kind == "llama":
        tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "▁", "h", "i", "a", "b", "hi", "▁hi", "ab"]
        writer.add_token_scores([0.0] * 4 + [-float(i) for i in range(8)])
        writer.add_token_types([2, 3, 3, 6] + [1] * 8)
    else:
        tokens = ["<s>", "</s>", "h", "i", "a", "b", "Ġ", "hi", "Ġhi", "ab"]
        writer.add_tokenizer_pre("llama-bpe")
        writer.add_token_merges(["h i", "Ġ hi", "a b"])
        writer.add_token_types([3, 3] + [1] * 8)
    writer.add_token_list(tokens)
    writer.add_bos_token_id(1 if kind == "llama" else 0)
    writer.add_eos_token_id(2 if kind == "llama" else 1)
    writer.add_chat_template("{{ messages[0].content }}")
    return gguf_bytes(writer)


def write_tokenizers():
    for kind in ["llama", "gpt2"]:
        write("tokenizer", f"good-gguf-{kind}", tokenizer_gguf(kind))
    added = [
        {"id": 4 + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for i, text in enumerate(["<|bos|>", "<|end|>"])
    ]  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    framed = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [4], "tokens": ["<|bos|>"]}},
    }
    bpe = {
        "version": "1.0", "added_tokens": added, "pre_tokenizer": byte_level, "decoder": byte_level,
        "post_processor": framed,
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3}, "merges": [["a", "b"]]},
    }  # fmt: skip
    config = {"bos_token": "<|bos|>", "eos_token": {"content": "<|end|>"}, "add_bos_token": True,
              "chat_template": [{"name": "default", "template": "{{ bos_token }}"}]}  # fmt: skip
    write("tokenizer", "good-bpe", sections(
        tokenizer__json=bpe, tokenizer_config__json=config,
        generation_config__json={"eos_token_id": [3, 5]}, text="ab a<|end|> é",
    ))  # fmt: skip
    split = {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}|\s+(?!\S)|\s+"}, "behavior": "Isolated", "invert": False}
    write("tokenizer", "good-split", sections(tokenizer__json={
        **bpe, "normalizer": {"type": "NFC"}, "post_processor": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
    }, config__json={"eos_token_id": 1, "bos_token_id": 4}))  # fmt: skip
    space_mark = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    write("tokenizer", "good-space-mark", sections(tokenizer__json={
        "version": "1.0", "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space_mark]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>",
                  "vocab": {"<unk>": 0, "▁": 1, "a": 2, "<0x0A>": 3}, "merges": []},
    }))  # fmt: skip


CHATML = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] \
+ '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
LLAMA_2 = """{%- if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}\
{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% endif %}\
{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('roles must alternate') }}{% endif %}{{ bos_token + '[INST] ' + message['content'] | trim \
~ ' [/INST]' ~ eos_token }}{% endfor %}"""
TOOLS = """{%- macro parameters(of) %}{% for name, kind in of|items %}{{ name }}: {{ kind.type|default('any')|upper }}
{% endfor %}{% endmacro %}{%- set ns = namespace(last=-1, text='') %}
{%- for message in messages %}{%- if message.role == 'user' and not(message.content.startswith('<') \
and message.content.endswith('>')) %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- if tools %}{% for tool in tools %}{{ tool | tojson(indent=2) }}{{ parameters(tool.function.parameters) }}\
{% endfor %}{% endif %}{% for message in messages[::-1] %}{% set ns.text = ns.text ~ \
message.content.split('</think>')[-1].lstrip('\\n') %}{% generation %}{{ message.content | replace('a', 'b') }}\
{% endgeneration %}{% endfor %}{{ ns.text }}{{ [1, 2] | join(', ') }}{{ strftime_now('%d %b %Y') }}"""


def write_templates():
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}]
    write("chat_template", "good-chatml", sections(template=CHATML, messages=talk))
    system = [{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}]
    write("chat_template", "good-llama-2", sections(template=LLAMA_2, messages=system))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"a": {"type": "string"}}}}
    write("chat_template", "good-tools", sections(
        template=TOOLS, messages=talk, tools=[tool], variables={"enable_thinking": False},
    ))  # fmt: skip


def write_requests():
    hello = [{"role": "user", "content": "hello"}]
    requests = {
        "chat": ("POST /v1/chat/completions", {
            "messages": hello, "max_tokens": 2, "temperature": 0.5, "top_p": 0.9, "seed": 1, "n": 2,
            "logprobs": True, "top_logprobs": 2, "stop": ["x"], "stream": True,
            "stream_options": {"include_usage": True}, "chat_template_kwargs": {"a": 1}}),
        "completions": ("POST /v1/completions", {
            "prompt": ["a", "b"], "max_tokens": 2, "echo": True, "logprobs": 1, "logit_bias": {"5": 1},
            "presence_penalty": 0.5, "frequency_penalty": 0.5, "repetition_penalty": 1.1, "top_k": 5,
            "min_p": 0.1, "no_repeat_ngram_size": 2, "min_tokens": 1, "ignore_eos": True, "stop_token_ids": [2],
            "cache_salt": "s", "priority": 1}),
        "token-ids": ("POST /v1/completions", {"prompt": [[5, 6], [7]], "max_tokens": 0, "echo": True, "logprobs": 0}),
        "json-schema": ("POST /v1/chat/completions", {
            "messages": hello, "max_tokens": 4, "response_format": {"type": "json_schema", "json_schema": {
                "name": "a", "schema": {"type": "object", "properties": {"a": {"enum": [1, "x"]}, "b": {"$ref": "#"}},
                                        "required": ["a"], "additionalProperties": False}}}}),
        "json-object": ("POST /chat", {"messages": hello, "max_new_tokens": 2, "response_format": {"type": "json_object"}}),
        "regex": ("POST /v1/completions", {"prompt": "a", "max_tokens": 4, "guided_regex": "[a-c]{1,3}(x|yz)*"}),
        "choice": ("POST /v1/completions", {"prompt": "a", "max_tokens": 4, "guided_choice": ["yes", "no"]}),
        "grammar": ("POST /v1/completions", {
            "prompt": "a", "max_tokens": 4, "structured_outputs": {"grammar": 'start: "a" word*\nword: /[b-d]+/ | "(" start ")"'}}),
        "embeddings": ("POST /v1/embeddings", {
            "input": ["a", "b"], "dimensions": 4, "encoding_format": "base64", "user": "u"}),
        "embedding-ids": ("POST /v1/embeddings", {"input": [[1, 2], [3]]}),
        "tokenize": ("POST /tokenize", {"prompt": "hello", "add_special_tokens": True}),
        "tokenize-chat": ("POST /tokenize", {"messages": hello}),
        "detokenize": ("POST /detokenize", {"tokens": [5, 6]}),
        "plain-completion": ("POST /completion", {"prompt": "hello", "max_new_tokens": 2, "stream": "true"}),
        "plain-chat": ("POST /chat", {"messages": hello, "max_new_tokens": 2, "add_generation_prompt": False}),
        "repository-index": ("POST /v2/repository/index", {"ready": False}),
    }  # fmt: skip
    for name, (line, body) in requests.items():
        write("http", f"good-{name}", f"{line}\n{json.dumps(body)}")
    for path in ["/", "/v1/models", "/ping", "/health", "/engine_check", "/metrics", "/docs", "/openapi.json", "/v2",
                 "/v2/models/stats", "/v2/trace/setting", "/v2/logging"]:
        name = path.strip("/").removesuffix(".json").replace("/", "-") or "index"
        write("http", f"good-{name}", f"GET {path}\n")


def handle(manifest, tokens, row_kind_ends, chunk_ends, table_pages):
    """A file without its length and its checksums, which the target puts right."""
    pages = [page for pages in table_pages for page in pages]
    numbers = [*row_kind_ends, *chunk_ends, *map(len, table_pages), *pages]
    content = json.dumps(manifest).encode()
    header = struct.pack("<8sHHI", b"TERRHAND", 1, len(table_pages), len(content)) + struct.pack(
        "<7Q", 0, manifest["page_bytes"], len(pages), len(tokens), len(row_kind_ends), len(chunk_ends), 0
    )
    numbers = struct.pack(f"<{len(tokens)}I{len(numbers)}Q", *tokens, *numbers)
    page = bytes(range(manifest["page_bytes"])) + bytes(8)
    return header + content + numbers + bytes(8) + page * len(pages)


def write_handles():
    least = {"id": "07" * 16, "name": "a", "created_unix_ms": 5, "model": "01" * 32, "arithmetic": "",
             "page_bytes": 1, "computed": 0, "tables": []}  # fmt: skip
    write("handle", "good-empty", handle(least, [], [], [], []))
    whole = {
        **least, "owner": "o", "expires_unix_ms": 6, "is_pinned": True, "is_imported": True, "arithmetic": "02",
        "page_bytes": 16, "computed": 5, "scaled_end": 4, "cache_salt": "s",
        "kv_cache": {"policy": "h2o", "budget": 4, "more": [1, None]},
        "tables": [{"format": "03", "page_tokens": 2, "len": 6}, {"format": "", "page_tokens": 4, "len": 6}],
    }  # fmt: skip
    write("handle", "good-tables", handle(whole, [1, 2, 3, 4, 5, 6], [4, 6], [2, 4], [[0, 1, 2], [1]]))


def write_ps_json():
    for path in sorted((ROOT / "testdata" / "ps").glob("*.json")):
        write("ps_json", f"good-{path.stem}", path.read_bytes())
    models = [{"model": "m", "sparse_files": ["a"]}]
    least = {"supportlonglong": True, "models": models}
    tls = {name: "a.pem" for name in ["tls_ca_certificate", "tls_client_certificate", "tls_client_key"]}
    variants = {
        "least": least,
        "disabled": {**least, "volatile_db": {}, "persistent_db": {"type": "disabled"}, "update_source": {"type": "null"}},
        "map-of-processes": {**least, "volatile_db": {"type": "multi_process_hash_map", "shared_memory_size": 1}},
        "redis-tls": {**least, "volatile_db": {
            "type": "redis", "address": ["[::1]:7000", "b;c:1"], "password": "p", "enable_tls": "1", **tls,
            "tls_server_name_identification": "n", "num_partitions": 2, "num_node_connections": 2}},
        "embedded": {**least, "placement": "auto", "persistent_db": {
            "type": "embedded", "path": "rows", "read_only": True, "update_filters": ["^hps_.+$", "[a-m]{1,3}|(x|y)*"]}},
        "misspelt": {**least, "cpu_memory_db": {"overflow_policy": "oldest"}, "peristent_db": {"type": "rocks"}},
        "kafka": {**least, "update_source": {
            "type": "kafka_mq", "brokers": "a,b:2", "receive_buffer_size": 9, "failure_backoff_ms": 0}},
        "db-type-of-models": {"supportlonglong": "0", "models": [
            {**models[0], "db_type": "rocksdb"}, {**models[0], "model": "n", "db_type": "rocksdb"}]},
        "percentage": {**least, "db_type": "hierarchy", "cache_size_percentage_redis": 50, "rocksdb_path": "r"},
        "network": {"inference": {"sparse_model_file": "s", "label": 2, "hit_rate_threshold": "0.5"}, "layers": []},
        "fused-map": {**least, "models": [{"model": "m", "sparse_files": {"b": ["x", "y"], "a": "z"}}]},
        "caches": {**least, "models": [{
            **models[0], "gpucache": True, "gpucacheper": "0.25", "embedding_cache_type": "static", "refresh_interval": 0.5,
            "refresh_delay": 1e-3, "deployed_device_list": [0, 3], "fp8_quant": False}]},
    }  # fmt: skip
    for name, value in variants.items():
        write("ps_json", f"good-{name}", json.dumps(value))
    write("ps_json", "good-byte-order-mark", "\ufeff" + json.dumps(least))
    filters = {"type": "rocks_db", "path": "p", "update_filters": [r"\w{90}"] * 40}
    write("ps_json", "filters-of-minutes", json.dumps({**least, "persistent_db": filters}))
    write("ps_json", "given-twice", '{"models": [], "models": [{"model": "m", "model": "n"}], "supportlonglong": 1}')


def sparse_table(keys, dim, said_dim=0, claims=(0, 0), slots=None, meta=None, batch=2):
    """The header and files that the target cuts an input into; `batch` is odd for files on a disk."""
    files = [struct.pack(f"<{len(keys)}q", *keys)]
    lengths = [len(files[0])]
    for beside in [slots, meta]:
        files.append(b"" if beside is None else struct.pack(f"<{len(beside)}Q", *beside))
        lengths.append(0xFFFF if beside is None else len(files[-1]))
    rows = np.arange(len(keys) * dim, dtype="<f4").tobytes()
    return struct.pack("<3Q4H", said_dim, *claims, *lengths, batch) + b"".join(files) + rows


def write_sparse_tables():
    most = 2**64 - 8
    tables = {
        "good-one": sparse_table([5], 1),
        "good-narrow-keys": sparse_table([0, 1, 2**32 - 1, 7, 7], 3, said_dim=3, batch=2),
        "good-wide-keys": sparse_table([-1, 2**63 - 1, -(2**63), 2**32], 4, batch=4),
        "good-on-disk": sparse_table([3, 1, 2], 2, said_dim=2, batch=1),
        "good-beside": sparse_table([3, 1, 2], 2, slots=[0, 1, 0], meta=[9, 9, 1], batch=3),
        "good-many": sparse_table(list(range(300)), 5, batch=7),
        "slot-missing": sparse_table([3, 1, 2], 2, slots=[0, 1], batch=3),
        "all-claimed": sparse_table([1], 1, claims=(most, most)),
        "claimed-width": sparse_table([1], 1, claims=(8, most)),
        "said-width": sparse_table([1], 1, said_dim=2**64 - 1),
        "shorter-than-claimed": sparse_table([1, 2, 3], 2, claims=(32, 32)),
        "longer-than-claimed": sparse_table([1, 2, 3], 2, claims=(16, 16)),
    }
    for name, content in tables.items():
        write("sparse_table", name, content)


def update_message(rows, value_bytes, key="q", magic=b"HCTR"):
    content = [struct.pack(f"<{key}{len(row)}f", number, *row) for number, row in rows]
    return magic + struct.pack("<I", value_bytes) + b"".join(content)


def write_update_messages():
    messages = {
        "good-beacon": update_message([], 16),
        "good-narrow-keys": update_message([(1, [0.5, 1]), (2**32 - 1, [2, -3])], 8, key="I"),
        "good-wide-keys": update_message([(-1, [0.5]), (7, [float("nan")]), (7, [1e-45])], 4),
        "good-both-kinds": update_message([(2**40, [1, 2, 3]), (0, [4, 5, 6])], 12)[:-4] + b"\x00\x00\xc0\x7f",
        "good-many": update_message([(i, [i / 8] * 16) for i in range(60)], 64),
        "no-floats": update_message([(1, [])], 0),
        "part-of-float": update_message([(1, [1])], 3),
        "part-of-row": update_message([(1, [1, 2])], 8)[:-1],
        "largest-value": update_message([(1, [1])], 2**32 - 4),
        "other-magic": update_message([(1, [1])], 4, magic=b"RTCH"),
    }
    for name, content in messages.items():
        write("update_message", name, content)


def dense_parts(version, content, parts, claimed=None):
    """Messages without their hash, which the target puts right."""
    size = -(-len(content) // parts)
    claimed = len(content) if claimed is None else claimed
    return [
        struct.pack("<4sI3Q2I", b"TRDW", 1, version, claimed, 0, part, parts) + content[part * size : (part + 1) * size]
        for part in range(parts)
    ]


def write_dense_messages():
    old, new = (dense_parts(version, bytes(range(version, version + 20)), 3) for version in [1, 2])
    last = dense_parts(2**64 - 1, b"last", 1)
    inputs = {
        "good-in-order": (64, old),
        "good-backwards": (20, old[::-1]),
        "good-versions": (64, [old[0], new[2], old[1], new[0], new[0], old[2], new[1], *old]),
        "good-greatest-version": (64, [*last, *new]),
        "good-single-bytes": (300, dense_parts(7, bytes(range(200)), 200)[::-1]),
        "good-two-publications": (64, [*dense_parts(3, b"abcdef", 3)[:2], *dense_parts(3, b"ghij", 2)]),
        "above-the-limit": (19, old),
        "all-claimed": (2**32 - 1, dense_parts(1, b"x", 1, claimed=2**64 - 1)),
        "parts-claimed": (64, [struct.pack("<4sI3Q2I", b"TRDW", 1, 1, 2**32 - 1, 0, 5, 2**32 - 1) + b"x"]),
        "part-missing": (64, old[1:]),
    }
    for name, (limit, messages) in inputs.items():
        messages = [struct.pack("<H", len(message)) + message for message in messages]
        write("dense_message", name, struct.pack("<I", limit) + b"".join(messages))


def write_ctr_networks():
    """Golden networks of small sizes, and one for each layer."""
    for path in sorted((ROOT / "testdata" / "ctr").glob("*/1/*.json")):
        layers = json.loads(path.read_text())["layers"]
        write("ctr_network", f"good-{path.stem}", json.dumps({"layers": layers}))
    manifest = json.loads((ROOT / "testdata" / "ctr_layers" / "manifest.json").read_text())
    for name, case in manifest.items():
        write("ctr_network", f"good-{name}", json.dumps({"layers": case["layers"]}))


def infer_body(json_bytes, content, binary=b""):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    json_bytes = len(content) if json_bytes is True else json_bytes
    return struct.pack("<I", 2**32 - 1 if json_bytes is None else json_bytes) + content + binary


def infer_input(name, datatype, shape, **rest):
    return {"name": name, "shape": shape, "datatype": datatype, **rest}


def write_infer_bodies():
    size = lambda size: {"binary_data_size": size}
    keys = infer_input("KEYS", "INT64", [1, 3], data=[7, -8, 2**63 - 1])
    texts = infer_input("T", "BYTES", [2], parameters=size(10))
    flags = {"timeout": 1000, "priority": 2, "binary_data_output": True, "k": 0.5}
    outputs = [{"name": "O", "parameters": {"binary_data": False, "classification": 3}}]
    raw = b"\1\0\0\0x\1\0\0\0y"
    bodies = {
        "good-json": infer_body(None, {"id": "a", "inputs": [keys], "outputs": outputs}),
        "good-nested": infer_body(
            None, {"inputs": [{"data": [[1, 2.5], [3, 1e-9]], **infer_input("F", "FP32", [2, 2])}]}
        ),
        "good-bools": infer_body(
            None, {"inputs": [infer_input("B", "BOOL", [3], data=[True, 0, 1])], "parameters": flags}
        ),
        "good-binary": infer_body(
            True,
            {"inputs": [texts, infer_input("H", "FP16", [2], parameters=size(4)), keys]},
            raw + b"\0<\0|",
        ),
        "good-empty": infer_body(None, {"inputs": []}),
        "longer-than-claimed": infer_body(True, {"inputs": [texts]}, raw + b"z"),
        "shorter-than-claimed": infer_body(True, {"inputs": [texts]}, raw[:-1]),
        "texts-that-lie": infer_body(True, {"inputs": [texts]}, b"\xff\xff\xff\xff" + raw[4:]),
        "all-claimed": infer_body(
            True, {"inputs": [infer_input("A", "BYTES", [2**62], parameters=size(2**64 - 1))]}
        ),
        "shape-that-overflows": infer_body(
            None, {"inputs": [infer_input("A", "INT8", [2**32, 2**32], data=[1])]}
        ),
        "deep": infer_body(
            None, b'{"inputs":[{"name":"A","shape":[1],"datatype":"INT8","data":' + b"[" * 500
        ),
        "json-behind-body": infer_body(2**31, {"inputs": []}),
    }
    for name, content in bodies.items():
        write("infer_body", name, content)


def field(number, content):
    """A field of protobuf's: a varint, or bytes behind their length."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number):
    number &= 2**64 - 1
    groups = [number >> shift & 127 for shift in range(0, max(1, number.bit_length()), 7)]
    return bytes(group | 128 for group in groups[:-1]) + bytes(groups[-1:])


def write_infer_messages():
    def tensor(name, datatype, shape, *rest):
        dims = b"".join(varint(dim) for dim in shape)
        return field(5, field(1, name) + field(2, datatype) + field(3, dims) + b"".join(rest))

    named = field(1, "m") + field(2, "1") + field(3, "id")
    parameter = field(4, field(1, "priority") + field(2, field(5, 3)))
    output = field(6, field(1, "O") + field(2, field(1, "classification") + field(2, field(2, 3))))
    int64s = field(5, field(3, b"".join(varint(number) for number in [7, -8, 2**63 - 1])))
    raw = struct.pack("<3q", 7, -8, 9)
    messages = {
        "good-contents": named + tensor("KEYS", "INT64", [3], int64s) + output,
        "good-raw": named + tensor("KEYS", "INT64", [1, 3]) + field(7, raw) + parameter,
        "good-texts": tensor("T", "BYTES", [2]) + field(7, b"\1\0\0\0x\0\0\0\0"),
        "good-empty": named,
        "raw-too-short": tensor("KEYS", "INT64", [3]) + field(7, raw[:-1]),
        "raw-for-none": field(7, raw),
        "negative-shape": tensor("KEYS", "INT64", [-1, -3]) + field(7, raw),
        "shape-that-overflows": tensor("KEYS", "INT64", [2**62, 2**62]) + field(7, b""),
        "narrow-overflow": tensor("A", "INT8", [1], field(5, field(2, varint(300)))),
        "parameter-without-value": field(4, field(1, "k") + field(2, b"")),
    }
    for name, content in messages.items():
        write("infer_message", name, content)


MODEL_CONFIG = """# A click-through model.
name: "clicks" backend: 'hugectr'
max_batch_size: 64,
input [
  { name: "DES" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "CATCOLUMN", data_type: TYPE_INT64; dims: -1 }
  { name: "ROWINDEX" data_type: TYPE_INT32 dims: [ -1 ] }
]
output < name: "OUTPUT0" data_type: 11 dims: [ -1 ] >
instance_group [ { count: 2 kind : KIND_GPU gpus:[0, 1] } ]
parameters [
  { key: "gpucache" value: { string_value: "true" } },
  { key: "gpucacheper" value: { string_value: "0." "5" } }
]
parameters { key: "slots" value { string_value: "\\x32\\066\\u00e9" } }
dynamic_batching { max_queue_delay_microseconds: 0x64 preferred_batch_size: [ 4, 8 ] }
"""


def write_model_configs():
    configs = {
        "good-clicks": MODEL_CONFIG,
        "good-empty": "",
        "good-sequences": "sequence_batching { direct { minimum_slot_utilization: nan } state [] }",
        "good-maps": 'dynamic_batching { priority_queue_policy { key: 1 value { max_queue_size: 3 } } }',
        "good-json": '{"name": "m", "max_batch_size": 8, "input": [{"name": "A", "data_type": "TYPE_FP32",'
        ' "dims": ["-1", 4]}], "parameters": {"a": {"string_value": "b"}}}',
        "unknown-field": 'name: "m" nme: "m"',
        "deep": "[a/inference.ModelConfig] {" * 2000,
        "deep-braces": "input " + "{" * 5000,
        "open-text": 'name: "a\\',
        "twice": 'name: "a" name: "b"',
        "too-large": "max_batch_size: 99999999999999999999",
        "deep-json": '{"input":[' * 500,
    }
    for name, content in configs.items():
        write("model_config", name, content)


def archive(pickle, **storages):
    """As `torch.save` packs them, without what is for PyTorch alone."""
    entries = {"data.pkl": pickle, "byteorder": b"little"}
    entries |= {f"data/{key[1:]}": content for key, content in storages.items()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(f"a/{name}"), content)
    return packed.getvalue()


def torch_global(module, name):
    return f"c{module}\n{name}\n".encode()


def torch_text(text):
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def torch_tensor(storage, key, elements, shape, strides, offset=0):
    """A call of `_rebuild_tensor_v2`."""

    def counts(numbers):
        return b"(" + b"".join(b"K" + bytes([number]) for number in numbers) + b"t"

    stored = b"(" + torch_text("storage") + torch_global("torch", storage) + torch_text(key) + torch_text("cpu")
    stored += b"K" + bytes([elements]) + b"tQ"
    hooks = torch_global("collections", "OrderedDict") + b")R"
    arguments = stored + b"K" + bytes([offset]) + counts(shape) + counts(strides) + b"\x89" + hooks
    return torch_global("torch._utils", "_rebuild_tensor_v2") + b"(" + arguments + b"tR"


def torch_dict(**entries):
    return b"(" + b"".join(torch_text(name) + value for name, value in entries.items()) + b"u"


def write_torch_files():
    floats, halves = np.arange(12, dtype=np.float32).tobytes(), np.ones(4, np.float16).tobytes()
    tensors = {
        "matrix": torch_tensor("FloatStorage", "0", 12, [3, 4], [4, 1]),
        "turned": torch_tensor("FloatStorage", "0", 12, [4, 3], [1, 4]),
        "row": torch_tensor("FloatStorage", "0", 12, [4], [1], offset=4),
        "halves": torch_tensor("HalfStorage", "1", 4, [4], [1]),
        "empty": torch_tensor("FloatStorage", "0", 12, [0, 3], [3, 1]),
        "ids": torch_tensor("LongStorage", "2", 2, [2], [1]),
    }
    storages = {"_0": floats, "_1": halves, "_2": np.arange(2).tobytes()}
    plain = b"\x80\x02}q\x00" + torch_dict(**tensors) + b"."
    state = torch_dict(**tensors) + b"}" + torch_dict(_metadata=b"}") + b"b"
    nested = {
        "epoch": b"K\x03",
        "loss": b"G" + struct.pack(">d", 0.5),
        "state_dict": torch_global("collections", "OrderedDict") + b")Rq\x01" + state,
        "flags": b"\x88N\x89\x87",
    }
    wide = torch_tensor("FloatStorage", "0", 12, [3, 4], [5, 1])
    expanded = torch_tensor("FloatStorage", "0", 1, [200, 200], [0, 0])
    doubled = b"".join(b"]q%c(h%ch%ce" % (at, at - 1, at - 1) for at in range(1, 60))
    framed = b"\x80\x04\x95" + struct.pack("<Q", 0) + b"}\x94(\x8c\x01w" + tensors["matrix"] + b"u."
    seeds = {
        "good-plain": archive(plain, **storages),
        "good-nested": archive(b"\x80\x02}q\x00" + torch_dict(**nested) + b".", **storages),
        "good-protocol-4": archive(framed, **storages),
        "calls-system": archive(torch_global("posix", "system") + torch_text("true") + b"\x85R."),
        "storage-missing": archive(plain, _0=floats),
        "storage-short": archive(plain, **{**storages, "_0": floats[:40]}),
        "strides-that-leave": archive(b"}" + torch_dict(w=wide) + b".", **storages),
        "expanded": archive(b"}" + torch_dict(w=expanded) + b".", **storages),
        "doubled": archive(b"]q\x00" + doubled + b"."),
    }
    for name, content in seeds.items():
        write("torch_file", name, content)


GIN = """# A recommender.
import some.module
WIDTH = 64
DatasetArgs.dataset_name = 'kuairand-1k'
DatasetArgs.max_history_seqlen = 4_096
NetworkArgs:
  num_layers = 3
  num_attention_heads = 2
utils.NetworkArgs.hidden_size = %WIDTH
NetworkArgs.kv_channels = \\
    32
RankingArgs.prediction_head_arch = [
    512,  # wide
    8,
]
RankingArgs.eval_metrics = ("AUC",)
item/DynamicEmbeddingArgs.feature_names = ['it' "em"]
BenchmarkDatasetArgs.feature_args = [@item/FeatureArgs(), @b]
item/FeatureArgs.value_dists = {'item': @x/RandomDistribution(), -1: 1e-3}
"""


def write_gins():
    macros = "".join(f"M{at} = [%M{at - 1}, %M{at - 1}]\n" for at in range(1, 20))
    seeds = {
        "good-ranking": GIN,
        "good-empty": "",
        "good-literals": "A.x = [0x1f, 0b1, 1_0, .5, 2., -1e-3, +1, True, None, r'\\d', '''a\nb''', (), (1,), {}]\n",
        "deep": "A.x = " + "[" * 5000,
        "deep-closed": "A.x = " + "(" * 33 + ")" * 33,
        "macro-of-itself": "M = [%M, %M]\nA.x = %M",
        "macros-doubled": "M0 = 1\n" + macros + "A.x = %M15",
        "open-text": "A.x = 'a\\",
        "include": "include 'other.gin'",
    }
    for name, content in seeds.items():
        write("gin", name, content)


def main():
    write("gguf", "good-llama", llama_gguf())
    write("gguf", "good-llama-scaled", llama_gguf(rope_scaling=True))
    write("gguf", "k-weights", k_weights_gguf())
    write_safetensors()
    write_adapters()
    write_tokenizers()
    write_templates()
    write_requests()
    write_handles()
    write_ps_json()
    write_sparse_tables()
    write_update_messages()
    write_dense_messages()
    write_ctr_networks()
    write_infer_bodies()
    write_infer_messages()
    write_model_configs()
    write_torch_files()
    write_gins()


if __name__ == "__main__":
    main()
