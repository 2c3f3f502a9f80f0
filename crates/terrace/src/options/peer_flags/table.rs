//! The flags, one row each; docs/configuration.md has the same rows, and a test compares them.

use super::values::{context_tokens, device_number, gpu_layers, hub_model, log_level, sequences};
use super::{Arity, Convert, Meaning, Peer, PeerFlag};

type Names = &'static [&'static str];

const ONE_DEVICE: &str = "a model runs on one device; say 1 or leave it out, and for several GPUs \
                          start a server for each (--device cuda:0, --device cuda:1)";
const NO_SPECULATION: &str = "speculative decoding is not there yet; leave it out";
const ONE_ADAPTER: &str = "say --adapter FOLDER, one for a model; for several, name a model for \
                           each in [[models]] of a settings file";
const HUB_TOKEN: &str = "set HF_TOKEN in the environment";
const REASONING: &str = "leave it out: what a model writes between <think> and </think> is \
                         separated without an option";

pub(super) const VLLM: &[PeerFlag] = &[
    vllm(&["--max-model-len"], Arity::Value, CONTEXT),
    vllm(&["--served-model-name"], Arity::Value, Meaning::Same("model-name")),
    vllm(&["--tensor-parallel-size", "-tp"], Arity::Value, at(&["1"], ONE_DEVICE)),
    vllm(&["--pipeline-parallel-size", "-pp"], Arity::Value, at(&["1"], ONE_DEVICE)),
    vllm(&["--data-parallel-size", "-dp"], Arity::Value, at(&["1"], ONE_DEVICE)),
    vllm(&["--gpu-memory-utilization"], Arity::Value, Meaning::Same("gpu-memory-fraction")),
    vllm(&["--kv-cache-memory-bytes"], Arity::Value, Meaning::Same("kv-memory")),
    vllm(&["--max-num-seqs"], Arity::Value, Meaning::Same("max-batch-size")),
    vllm(&["--max-num-batched-tokens"], Arity::Value, Meaning::Same("max-step-tokens")),
    vllm(
        &["--quantization", "-q"],
        Arity::Value,
        refused(
            "weights are used as the model's files hold them: leave it out, and serve a \
                 quantised GGUF file (--model FILE.gguf)",
        ),
    ),
    vllm(
        &["--enforce-eager"],
        Arity::Switch,
        refused(
            "leave it out: on a GPU decoding always runs from CUDA graphs, on the CPU there \
                 are none",
        ),
    ),
    vllm(&["--enable-prefix-caching"], Arity::Switch, always("prefixes are always shared")),
    vllm(
        &["--no-enable-prefix-caching"],
        Arity::Switch,
        refused(
            "prefixes are always shared; a request with a \"cache_salt\" of its own shares \
                 none",
        ),
    ),
    vllm(&["--enable-chunked-prefill"], Arity::Switch, always("prompts always run in chunks")),
    vllm(
        &["--no-enable-chunked-prefill"],
        Arity::Switch,
        refused("prompts always run in chunks; --max-step-tokens says how long these may be"),
    ),
    vllm(&["--trust-remote-code"], Arity::Switch, always("code of a model is never run")),
    vllm(
        &["--tokenizer"],
        Arity::Value,
        refused("the model's own tokenizer is used; put another tokenizer.json into its folder"),
    ),
    vllm(&["--tokenizer-mode"], Arity::Value, at(&["auto"], "there is one kind: say auto")),
    vllm(
        &["--load-format"],
        Arity::Value,
        at(&["auto"], "the files say what they are: say auto or leave it out"),
    ),
    vllm(
        &["--task"],
        Arity::Value,
        at(&["auto", "generate"], "a model generates and embeds at once: leave it out"),
    ),
    vllm(
        &["--revision"],
        Arity::Value,
        refused("say it behind the model: --model ORG/NAME:REVISION"),
    ),
    vllm(
        &["--download-dir"],
        Arity::Value,
        refused("set HF_HOME in the environment: models of the hub are kept below it"),
    ),
    vllm(
        &["--generation-config"],
        Arity::Value,
        at(
            &["auto"],
            "the model's own generation_config.json fills what requests and the \
                       sampling options leave out",
        ),
    ),
    vllm(
        &["--chat-template-content-format"],
        Arity::Value,
        at(
            &["auto"],
            "messages may hold a text or a list of text parts, whatever the template: \
                       say auto or leave it out",
        ),
    ),
    vllm(
        &["--allowed-origins"],
        Arity::Value,
        refused("say --allow-origin ORIGIN, once for each origin"),
    ),
    vllm(
        &["--enable-auto-tool-choice"],
        Arity::Switch,
        always("a model may always call the tools that a request brings"),
    ),
    vllm(
        &["--tool-call-parser"],
        Arity::Value,
        refused("leave it out: how a model writes tool calls is read off its chat template"),
    ),
    vllm(&["--reasoning-parser"], Arity::Value, refused(REASONING)),
    vllm(
        &["--uvicorn-log-level"],
        Arity::Value,
        converted("log-level", log_level, "`--log-level`; `critical` is `error`"),
    ),
    vllm(
        &["--disable-log-requests", "--no-enable-log-requests"],
        Arity::Switch,
        converted("log-level", |_| Ok(Some("warn".to_owned())), "`--log-level warn`"),
    ),
    vllm(
        &["--disable-log-stats"],
        Arity::Switch,
        always("statistics are not logged; /metrics has them"),
    ),
    vllm(&["--enable-lora"], Arity::Switch, refused(ONE_ADAPTER)),
    vllm(&["--lora-modules"], Arity::Value, refused(ONE_ADAPTER)),
    vllm(&["--speculative-config"], Arity::Value, refused(NO_SPECULATION)),
];

pub(super) const LLAMA_CPP: &[PeerFlag] = &[
    llama_cpp(&["-c", "--ctx-size"], Arity::Value, CONTEXT),
    llama_cpp(
        &["-ngl", "--n-gpu-layers", "--gpu-layers"],
        Arity::Value,
        converted(
            "device",
            gpu_layers,
            "`--device cpu` at 0; `--device auto` at `all`, `auto`, -1, and 99 or more; refused \
             between, for all layers run on one device",
        ),
    ),
    llama_cpp(
        &["-np", "--parallel"],
        Arity::Value,
        converted("max-batch-size", sequences, "`--max-batch-size`; at -1 its default"),
    ),
    llama_cpp(&["-ub", "--ubatch-size"], Arity::Value, Meaning::Same("max-step-tokens")),
    llama_cpp(
        &["-b", "--batch-size"],
        Arity::Value,
        refused("there is no second size around a step's: say --max-step-tokens (or -ub)"),
    ),
    llama_cpp(
        &["-t"],
        Arity::Value,
        converted("threads", sequences, "`--threads`; at -1 its default"),
    ),
    llama_cpp(
        &["-tb", "--threads-batch"],
        Arity::Value,
        refused("prefill and decode share a step and its threads: say --threads"),
    ),
    llama_cpp(
        &["-fa", "--flash-attn"],
        Arity::SwitchOrValue,
        at(
            &["on", "auto", "true", "1"],
            "attention never writes its scores to memory: leave it \
                                          out",
        ),
    ),
    llama_cpp(&["--jinja"], Arity::Switch, always("chat templates are always Jinja")),
    llama_cpp(
        &["--no-jinja"],
        Arity::Switch,
        refused("chat templates are always Jinja; --prompt-template frames plain prompts"),
    ),
    llama_cpp(&["--chat-template-file"], Arity::Value, Meaning::Same("chat-template")),
    llama_cpp(
        &["-hf", "-hfr", "--hf-repo"],
        Arity::Value,
        converted(
            "model",
            hub_model,
            "`--model`; a file is named as `ORG/NAME:FILE.gguf`, not by its quantisation",
        ),
    ),
    llama_cpp(
        &["-hff", "--hf-file"],
        Arity::Value,
        refused("say it behind the model: --model ORG/NAME:FILE.gguf"),
    ),
    llama_cpp(&["-hft", "--hf-token"], Arity::Value, refused(HUB_TOKEN)),
    llama_cpp(&["-a", "--alias"], Arity::Value, Meaning::Same("model-name")),
    llama_cpp(&["--temp"], Arity::Value, Meaning::Same("temperature")),
    llama_cpp(&["--repeat-penalty"], Arity::Value, Meaning::Same("repetition-penalty")),
    llama_cpp(&["-s"], Arity::Value, Meaning::Same("seed")),
    llama_cpp(
        &["-n", "--predict", "--n-predict"],
        Arity::Value,
        refused(
            "--max-output-len limits every output, a request's max_tokens its own, and \
                 --max-new-tokens those of terrace generate",
        ),
    ),
    llama_cpp(&["-cb", "--cont-batching"], Arity::Switch, always("batching is continuous")),
    llama_cpp(&["--metrics"], Arity::Switch, always("/metrics is always there")),
    llama_cpp(
        &["--embedding", "--embeddings"],
        Arity::Switch,
        always("/v1/embeddings is always there"),
    ),
    llama_cpp(
        &["-ctk", "--cache-type-k", "-ctv", "--cache-type-v"],
        Arity::Value,
        refused(
            "say --kv-cache-dtype (fp16, bf16, fp32, fp8), or for eight or four bits \
                 --kv-cache.name dense-torch-quantized8 or dense-torch-quantized4",
        ),
    ),
    llama_cpp(
        &["-mg", "--main-gpu"],
        Arity::Value,
        converted("device", device_number, "`--device cuda:N`"),
    ),
    llama_cpp(&["-sm", "--split-mode"], Arity::Value, at(&["none"], ONE_DEVICE)),
    llama_cpp(&["-ts", "--tensor-split"], Arity::Value, refused(ONE_DEVICE)),
    llama_cpp(
        &["--mlock", "--no-mmap"],
        Arity::Switch,
        refused("leave it out: weights are read into memory at the start, as far as they fit"),
    ),
    llama_cpp(
        &["--rope-scaling", "--rope-scale"],
        Arity::Value,
        refused(
            "say --max-context-len, which scales positions where it must; --yarn-rope says \
                 how",
        ),
    ),
    llama_cpp(&["--reasoning-format"], Arity::Value, refused(REASONING)),
    llama_cpp(&["--ssl-cert-file"], Arity::Value, Meaning::Same("ssl-certfile")),
    llama_cpp(&["--ssl-key-file"], Arity::Value, Meaning::Same("ssl-keyfile")),
    llama_cpp(
        &["--api-key-file"],
        Arity::Value,
        refused("put api_key = [\"KEY\"] into a settings file (--config FILE)"),
    ),
    llama_cpp(
        &["-to", "--timeout"],
        Arity::Value,
        refused("say --request-seconds, --idle-seconds or --stall-seconds, as it is meant"),
    ),
    llama_cpp(
        &["-v", "--verbose"],
        Arity::Switch,
        converted("log-level", |_| Ok(Some("debug".to_owned())), "`--log-level debug`"),
    ),
    llama_cpp(
        &["--lora"],
        Arity::Value,
        refused(
            "say --adapter FOLDER, with the files that PEFT wrote, of which the GGUF file was made",
        ),
    ),
    llama_cpp(&["-md", "--model-draft"], Arity::Value, refused(NO_SPECULATION)),
];

const CONTEXT: Meaning = converted(
    "max-context-len",
    context_tokens,
    "`--max-context-len`; at 0, -1 and `auto` the model's; `8k` is 8000, `8K` 8192",
);

const fn vllm(names: Names, arity: Arity, meaning: Meaning) -> PeerFlag {
    PeerFlag { names, peer: Peer::Vllm, arity, meaning }
}

const fn llama_cpp(names: Names, arity: Arity, meaning: Meaning) -> PeerFlag {
    PeerFlag { names, peer: Peer::LlamaCpp, arity, meaning }
}

const fn converted(option: &'static str, convert: Convert, manual: &'static str) -> Meaning {
    Meaning::Converted { option, convert, manual }
}

const fn at(values: &'static [&'static str], why: &'static str) -> Meaning {
    Meaning::AlwaysSo { values, why }
}

const fn always(why: &'static str) -> Meaning {
    Meaning::AlwaysSo { values: &[], why }
}

const fn refused(why: &'static str) -> Meaning {
    Meaning::Refused(why)
}
