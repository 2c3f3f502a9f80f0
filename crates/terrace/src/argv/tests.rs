//! Flags by their names: what each becomes, or what it is answered with.

use std::ffi::OsString;

use super::settle;

#[track_caller]
fn check(args: &str, want: &str) {
    let settled = settle(words(args)).unwrap_or_else(|error| panic!("{args}: {error}"));
    let settled: Vec<&str> = settled.iter().filter_map(|arg| arg.to_str()).collect();
    assert_eq!(settled.join(" "), want);
}

/// As `check`, behind `terrace serve`.
#[track_caller]
fn check_serve(args: &str, want: &str) {
    let with_space = if want.is_empty() { String::new() } else { format!(" {want}") };
    check(&format!("terrace serve {args}"), &format!("terrace serve{with_space}"));
}

#[track_caller]
fn check_refused(args: &str, wanted: &[&str]) {
    let error = settle(words(&format!("terrace serve {args}"))).expect_err(args);
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    for want in wanted {
        assert!(text.contains(want), "no {want:?} in {text}");
    }
}

fn words(args: &str) -> impl Iterator<Item = OsString> {
    args.split(' ').map(OsString::from)
}

#[test]
fn underscores_in_known_options_become_hyphens() {
    check("terrace serve --max_batch_size 4", "terrace serve --max-batch-size=4");
    check("terrace serve --kv_cache-dtype=a_b", "terrace serve --kv-cache-dtype=a_b");
    check("terrace bench llm --max_batch_size 4", "terrace bench llm --max-batch-size=4");
}

#[test]
fn all_else_stays_as_typed() {
    check("terrace serve --no_such_option -x a_b", "terrace serve --no_such_option -x a_b");
    check("terrace generate -- --max_batch_size", "terrace generate -- --max_batch_size");
    check("terrace generate a_b", "terrace generate a_b");
    check("terrace serve -mfile", "terrace serve -mfile");
    check("terrace pull --ctx-size 5", "terrace pull --ctx-size 5");
    check("terrace", "terrace");
}

#[test]
fn a_number_below_zero_is_a_value() {
    check_serve("--temperature -1", "--temperature=-1");
    check_serve("--temperature -inf --top_p -nan", "--temperature=-inf --top-p=-nan");
    check_serve("--max-batch-size -1", "--max-batch-size=-1");
    check_serve("--kv-memory -1GiB", "--kv-memory=-1GiB");
    check_serve("--temperature --port 1", "--temperature --port=1");
}

#[test]
fn a_switch_may_be_turned_off() {
    check_serve("--do-sample false --port 1", "--do-sample=false --port=1");
    check("terrace generate --do-sample once", "terrace generate --do-sample once");
}

#[test]
fn flags_of_vllm_become_options() {
    check_serve("--max-model-len 4096", "--max-context-len=4096");
    check_serve("--max_model_len=8K", "--max-context-len=8192");
    check_serve("--max-model-len 25.6k", "--max-context-len=25600");
    check_serve("--max-model-len auto", "");
    check_serve("--served-model-name a", "--model-name=a");
    check_serve("--gpu-memory-utilization 0.8", "--gpu-memory-fraction=0.8");
    check_serve("--max-num-seqs 8", "--max-batch-size=8");
    check_serve("--max-num-batched-tokens 2048", "--max-step-tokens=2048");
    check_serve("--kv-cache-memory-bytes 1000000", "--kv-memory=1000000");
    check_serve("--api-key a --dtype auto", "--api-key=a --dtype=auto");
    check_serve("--uvicorn-log-level warning", "--log-level=warn");
    check_serve("--disable-log-requests", "--log-level=warn");
    check("terrace chat --max-model-len 9", "terrace chat --max-context-len=9");
}

#[test]
fn flags_of_vllm_that_are_so_anyway_are_taken() {
    check_serve("--tensor-parallel-size 1 -tp 1 -pp=1 --data-parallel-size 1", "");
    check_serve("--enable-prefix-caching --enable-chunked-prefill --trust-remote-code", "");
    check_serve("--enable-auto-tool-choice --chat-template-content-format auto", "");
}

#[test]
fn flags_of_vllm_that_cannot_act_are_answered() {
    check_refused("--tensor-parallel-size 2", &["--tensor-parallel-size 2: ", "--device cuda:1"]);
    check_refused("-tp 8", &["-tp 8: a model runs on one device"]);
    check_refused("--quantization fp8", &["quantised GGUF file"]);
    check_refused("--enforce-eager", &["CUDA graphs"]);
    check_refused("--no-enable-prefix-caching", &["cache_salt"]);
    check_refused("--tokenizer a/b", &["tokenizer.json"]);
    check_refused("--revision main", &["--model ORG/NAME:REVISION"]);
    check_refused("--download-dir /a", &["HF_HOME"]);
    check_refused("--tool-call-parser hermes", &["chat template"]);
    check_refused("--reasoning-parser qwen3", &["<think>"]);
    check_refused("--chat-template-content-format openai", &["text parts"]);
    check_refused("--max-model-len many", &["\"many\" is no number of tokens"]);
}

#[test]
fn flags_of_llama_cpp_become_options() {
    check_serve("-c 4096", "--max-context-len=4096");
    check_serve("--ctx-size 4096", "--max-context-len=4096");
    check_serve("-c 0", "");
    check_serve("-ngl 0", "--device=cpu");
    check_serve("-ngl 99", "--device=auto");
    check_serve("--n-gpu-layers all", "--device=auto");
    check_serve("-mg 1", "--device=cuda:1");
    check_serve("-np 4", "--max-batch-size=4");
    check_serve("--parallel -1", "");
    check_serve("-ub 256", "--max-step-tokens=256");
    check_serve("-t 4", "--threads=4");
    check_serve("-hf a/b -a c", "--model=a/b --model-name=c");
    check_serve("--temp -1", "--temperature=-1");
    check_serve("-s 7 --repeat-penalty 1.1", "--seed=7 --repetition-penalty=1.1");
    check_serve("-v", "--log-level=debug");
    check_serve("--ssl-key-file k --ssl-cert-file c", "--ssl-keyfile=k --ssl-certfile=c");
}

#[test]
fn flags_of_llama_cpp_that_are_so_anyway_are_taken() {
    check_serve("-fa --jinja -cb --metrics", "");
    check_serve("-fa on --flash-attn auto model.gguf", "model.gguf");
}

#[test]
fn flags_of_llama_cpp_that_cannot_act_are_answered() {
    check_refused("-ngl 20", &["-ngl 20: all layers of a model run on one device", "99 or all"]);
    check_refused("-ngl some", &["\"some\" is no number of layers"]);
    check_refused("-fa off", &["-fa off: "]);
    check_refused("-b 2048", &["--max-step-tokens"]);
    check_refused("--batch-size 2048", &["--max-step-tokens"]);
    check_refused("-hf a/b:Q4_K_M", &["--model a/b:FILE.gguf"]);
    check_refused("-ctk q8_0", &["--kv-cache.name dense-torch-quantized8"]);
    check_refused("-np", &["-np needs a value"]);
    check_refused("-np --port 1", &["-np needs a value"]);
    check_refused("--jinja=1", &["--jinja takes no value"]);
    check_refused("-n 5", &["--max-output-len"]);
}

#[test]
fn an_option_of_the_command_comes_before_a_peers_flag() {
    check("terrace generate -n 2 -f a", "terrace generate --n=2 --file=a");
}

#[test]
fn an_option_is_set_once() {
    check_serve("--max-model-len 8 --max-context-len 8", "--max-context-len=8");
    check_serve("-c 8k --max_context_len=8000", "--max-context-len=8000");
    check_serve("-ngl 99 --device cuda:0", "--device=cuda:0");
    check_serve("-ngl all -mg 1", "--device=cuda:1");
    check_refused(
        "--max-model-len 8 --max-context-len 9",
        &["--max-model-len 8 and --max-context-len 9", "give one of them"],
    );
    check_refused("--max-num-seqs 8 -np 9", &["--max-num-seqs 8 and -np 9", "--max-batch-size"]);
    check_refused("--device cpu -ngl 99", &["--device cpu and -ngl 99"]);
    check_refused("-m a -hf b/c", &["--model a and -hf b/c"]);
}
