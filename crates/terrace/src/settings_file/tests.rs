//! Who wins, and what a wrong file says.

use std::ffi::OsString;

use clap::error::ErrorKind;
use terrace_engine::YarnRope;

use crate::argv;
use crate::cli::Command;
use crate::commands::serve::ServeArgs;
use crate::options::EngineDefaults;
use crate::settings_file::parse;

fn serve(file: &str, typed: &[&str]) -> Result<Box<ServeArgs>, clap::Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("terrace.toml");
    std::fs::write(&path, file).unwrap();
    let mut args: Vec<OsString> = vec!["terrace".into(), "serve".into(), "--config".into()];
    args.push(path.into());
    args.extend(typed.iter().map(OsString::from));
    match parse(argv::settle(args)?)?.command {
        Command::Serve(args) => Ok(args),
        other => panic!("parsed {other:?}"),
    }
}

#[track_caller]
fn check_refused(file: &str, want: &str) {
    let error = serve(file, &[]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    assert!(text.contains("terrace.toml: ") && text.contains(want), "{text}");
}

#[test]
fn the_command_line_wins_over_the_file_and_the_file_over_the_defaults() {
    let file = "port = 9000\nmax_batch_size = 4\napi-key = ['a', 'b']\ntemperature = 0.5\n";
    let args = serve(file, &[]).unwrap();
    assert_eq!((args.service.port, args.service.host.as_str()), (9000, "127.0.0.1"));
    assert_eq!(args.service.api_key, ["a", "b"]);
    assert_eq!(args.sampling.generation().temperature, Some(0.5));
    assert_eq!(
        args.engine.inference_config(EngineDefaults::serving(8192)).unwrap().max_batch_size,
        4
    );

    let args = serve(file, &["--port=1", "--max_batch_size", "2", "--api_key=c"]).unwrap();
    assert_eq!(args.service.port, 1);
    assert_eq!(args.service.api_key, ["c"], "a typed list replaces the file's");
    assert_eq!(
        args.engine.inference_config(EngineDefaults::serving(8192)).unwrap().max_batch_size,
        2
    );
}

#[test]
fn lengths_beyond_the_model_are_what_file_and_command_line_say() {
    let lengths = |file: &str, typed: &[&str]| {
        let args = serve(file, typed).unwrap();
        let config = args.engine.inference_config(EngineDefaults::serving(512)).unwrap();
        (config.max_input_len, config.max_context_len, config.yarn_rope)
    };
    assert_eq!(lengths("", &[]), (512, None, None));
    assert_eq!(lengths("max_context_len = 2048", &[]), (2048, Some(2048), None));
    let typed = ["--yarn_rope", "true", "-i", "600", "-o", "100"];
    assert_eq!(lengths("yarn_rope = false", &typed), (600, None, Some(YarnRope::Expected)));
    // With an open length, prompt and output share the longer of the two.
    let expected = Some(YarnRope::Expected);
    assert_eq!(lengths("yarn_rope = true", &["-i", "600"]), (600, Some(600), expected));
    assert_eq!(lengths("yarn_rope = true", &[]), (512, Some(512), expected));
    let dynamic = Some(YarnRope::Dynamic);
    assert_eq!(lengths("yarn_rope = 'dynamic'", &["-i", "600"]), (600, Some(600), dynamic));
    assert_eq!(lengths("", &["--yarn-rope", "dynamic"]), (512, Some(512), dynamic));
    assert!(serve("yarn_rope = 'often'", &[]).is_err());
}

#[test]
fn values_are_what_they_are_on_the_command_line() {
    let args = serve("kv-memory = '1GiB'\ndo_sample = true\nstop = ['--x', 'b c']", &[]).unwrap();
    assert_eq!(
        args.engine.inference_config(EngineDefaults::serving(8192)).unwrap().kv_memory_bytes,
        Some(1 << 30)
    );
    assert_eq!(args.sampling.generation().do_sample, Some(true));
    assert_eq!(args.sampling.generation().stop.unwrap(), ["--x", "b c"]);
}

#[test]
fn an_unknown_key_is_named_with_near_ones() {
    check_refused("prot = 1", "unknown key 'prot'; near ones: port");
    check_refused("ssl = 'x'", "unknown key 'ssl'; near ones: ");
    check_refused("colour = 'red'", "unknown key 'colour'; --help lists all options");
    check_refused("config = 'x'", "unknown key 'config'");
}

#[test]
fn a_wrong_value_says_the_rule() {
    check_refused("port = 'high'", "invalid value 'high' for '--port <PORT>'");
    check_refused("port = 70000", "invalid value '70000' for '--port <PORT>'");
    check_refused("[server]\nport = 1", "unknown key 'server.port'");
    check_refused("[[server]]\nport = 1", "'server' is a list of tables");
    check_refused("[kv_cache]\ncache_length = 'all'", "invalid value 'all'");
    check_refused("port = ", "TOML parse error at line 1");
    check_refused("root_path = '/api'", "Terrace serves at the root");
}

#[test]
fn a_missing_file_is_an_error() {
    let args = ["terrace", "serve", "--config", "no/such.toml"].map(OsString::from);
    let error = parse(args.to_vec()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("settings file no/such.toml: No such file"), "{error}");
}

#[test]
fn models_have_options_of_their_own() {
    let file = "threads = 2\nmax_batch_size = 4\n\
        [[models]]\nname = 'small'\nmodel = 'a.gguf'\nmax-batch-size = 8\n\
        [[models]]\nmodel = 'b.gguf'\nkv_memory = '2GiB'\n";
    let reported = |typed: &[&str]| {
        let wanted = serve(file, typed).unwrap().wanted_models().unwrap();
        let reported = wanted.into_iter().map(|options| {
            let config = options.inference_config(EngineDefaults::serving(8192)).unwrap();
            let model = options.only_model().unwrap().to_string();
            (model, config.threads, config.max_batch_size, config.kv_memory_bytes)
        });
        reported.collect::<Vec<_>>()
    };
    assert_eq!(
        reported(&[]),
        [
            ("small=a.gguf".to_owned(), Some(2), 8, Some(1 << 30)),
            ("b.gguf".to_owned(), Some(2), 4, Some(2 << 30)),
        ]
    );
    let typed = reported(&["--max-batch-size", "1", "--model", "c=c.gguf", "--model", "d=d.gguf"]);
    assert_eq!(
        typed,
        [
            ("c=c.gguf".to_owned(), Some(2), 1, Some(1 << 30)),
            ("d=d.gguf".to_owned(), Some(2), 1, Some(1 << 30)),
        ]
    );
}

#[test]
fn tables_stand_in_the_file_or_are_named_by_it() {
    let models = |file: &str, typed: &[&str]| {
        let args = serve(file, typed).unwrap();
        let source = args.tables.source().unwrap().expect("tables").name();
        let source = source.rsplit('/').next().unwrap().to_owned();
        (source, args.wanted_models().unwrap().len())
    };
    let inline = "[ps]\nsupportlonglong = true\n[[ps.models]]\nmodel = 'a'\nstop = 1\n";
    assert_eq!(models(inline, &[]), ("terrace.toml [ps]".to_owned(), 0));
    assert_eq!(models(inline, &["--ps", "a.json"]), ("a.json".to_owned(), 0));
    assert_eq!(models(inline, &["b.gguf"]), ("terrace.toml [ps]".to_owned(), 1));
    assert_eq!(models("ps = 'a.json'\nps_threads = 2", &[]), ("a.json".to_owned(), 0));
    assert_eq!(models("ps = 'a.json'\nmodel = 'b'", &[]), ("a.json".to_owned(), 1));
    let both = "ps = 'a.json'\n[[models]]\nmodel = 'b'\n[[models]]\nmodel = 'c'\n";
    assert_eq!(models(both, &[]), ("a.json".to_owned(), 2));
    assert_eq!(serve("", &[]).unwrap().wanted_models().unwrap().len(), 1, "the default model");
    check_refused("[ps]\nat = 2020-01-01", "[ps] at: found the date");
    check_refused("ps_threads = 0", "it must be a whole number from 1");
}

#[test]
fn wrong_models_are_refused() {
    check_refused("models = 'a'", "'models' must be tables");
    check_refused("[[models]]\nname = 'a'", "needs model = ");
    check_refused("[[models]]\nmodel = 'a'\nport = 1", "'port' cannot be set for one of");
    check_refused("model = 'a'\n[[models]]\nmodel = 'b'", "'model' stands beside [[models]]");
    check_refused("[[models]]\nmodel = 'a'\nthreads = 'x'", "invalid value 'x' for '--threads");
    let twice = "[[models]]\nmodel = 'a'\nname = 'x'\n[[models]]\nmodel = 'b'\nname = 'x'\n";
    let error = serve(twice, &[]).unwrap().wanted_models().unwrap_err();
    assert_eq!(error.to_string(), "two models are named \"x\"");
    let named = serve("", &["--model", "a", "--model", "b", "--model-name", "c"]).unwrap();
    assert!(named.wanted_models().unwrap_err().to_string().contains("--model NAME=PATH"));
}

#[test]
fn flags_of_others_may_stand_in_the_file() {
    let file = "max_model_len = 4096\nmax-num-seqs = 4\nserved_model_name = 'a'\n\
        trust_remote_code = true\n[[models]]\nmodel = 'b'\nctx_size = 2048\n";
    let lengths = |file: &str, typed: &[&str]| {
        let wanted = serve(file, typed).unwrap().wanted_models().unwrap();
        let config = wanted[0].inference_config(EngineDefaults::serving(512)).unwrap();
        (config.max_context_len, config.max_batch_size, wanted[0].only_model().unwrap().to_string())
    };
    assert_eq!(lengths(file, &[]), (Some(2048), 4, "a=b".to_owned()));
    assert_eq!(lengths(file, &["-np", "2", "-c", "99"]), (Some(99), 2, "a=b".to_owned()));
    assert_eq!(lengths("max_model_len = 8\nmax_context_len = 8", &[]).0, Some(8));

    check_refused(
        "max_model_len = 8\nmax_context_len = 9",
        "'max_model_len' and 'max_context_len'",
    );
    check_refused("tensor_parallel_size = 2", "'tensor_parallel_size': a model runs on one device");
    check_refused("trust_remote_code = false", "it can be true, or left out");
    check_refused("served_model_name = ['a', 'b']", "'served_model_name': it takes one value");
    check_refused("max_num_seqs = -1", "invalid value '-1' for '--max-batch-size");
}

#[test]
fn a_model_may_be_named_without_an_option() {
    let named = |file: &str, typed: &[&str]| {
        let wanted = serve(file, typed).unwrap().wanted_models().unwrap();
        wanted.iter().map(|options| options.only_model().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(named("", &["a.gguf"]), ["a.gguf"]);
    assert_eq!(named("", &["a.gguf", "--served-model-name", "b"]), ["b=a.gguf"]);
    assert_eq!(named("model = 'x'", &["a.gguf"]), ["a.gguf"]);
    assert_eq!(named("[[models]]\nmodel = 'x'", &["a.gguf"]), ["a.gguf"]);
    assert!(serve("", &["a.gguf", "--model", "b.gguf"]).is_err());
    assert!(serve("", &["a.gguf", "b.gguf"]).is_err());
}

#[test]
fn numbers_out_of_range_are_answered_with_the_range() {
    for (option, numbers, rule) in [
        ("temperature", &["-1", "nan", "inf", "1e39", "-inf"][..], "at least 0"),
        ("top_p", &["0", "-0.1", "1.1", "nan"], "it must be above 0 and at most 1"),
        ("min_p", &["-0.1", "1", "nan"], "it must be at least 0 and below 1"),
        ("repetition_penalty", &["0", "-1", "inf", "nan"], "a finite number above 0"),
        ("presence_penalty", &["-2.1", "2.1", "nan"], "it must be from -2 to 2"),
        ("frequency_penalty", &["-2.1", "2.1", "nan"], "it must be from -2 to 2"),
        ("top_k", &["-1", "99999999999999999999", "0.5"], "from 0 to 18446744073709551615"),
        ("no_repeat_ngram_size", &["-1"], "it must be a whole number from 0 to"),
        ("forced_eos_token_id", &["-1", "4294967296"], "from 0 to 4294967295"),
        ("seed", &["-1", "nan"], "it must be a whole number from 0 to 18446744073709551615"),
        ("max_batch_size", &["0", "-1"], "it must be a whole number from 1 to"),
    ] {
        for number in numbers {
            let error = serve("", &[&format!("--{option}"), number]).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let text = error.to_string();
            assert!(text.contains(&format!("invalid value '{number}' for '--")), "{text}");
            assert!(text.contains(rule), "{text}");
            check_refused(&format!("{option} = '{number}'"), rule);
        }
    }
    check_refused("temperature = -1", "invalid value '-1' for '--temperature <FACTOR>'");
    check_refused("temperature = nan", "it must be a finite number, at least 0");
    assert!(serve("presence_penalty = -2.0", &["--frequency_penalty", "-0.5"]).is_ok());
}

#[test]
fn precisions_have_the_names_of_pytorch_too() {
    use terrace_engine::Precision;
    let kept = |typed: &[&str]| {
        let args = serve("", typed).unwrap();
        let config = args.engine.inference_config(EngineDefaults::serving(512)).unwrap();
        (config.dtype, config.kv_cache_dtype.unwrap_or(Precision::Auto))
    };
    for (name, precision) in [
        ("auto", Precision::Auto),
        ("half", Precision::Fp16),
        ("float16", Precision::Fp16),
        ("bfloat16", Precision::Bf16),
        ("float", Precision::Fp32),
        ("float32", Precision::Fp32),
    ] {
        assert_eq!(kept(&["--dtype", name]), (precision, Precision::Auto), "{name}");
    }
    let (auto, fp8) = (["--kv-cache-dtype", "auto"], ["--kv-cache-dtype", "fp8_e4m3"]);
    assert_eq!(kept(&auto), (Precision::Auto, Precision::Auto));
    assert_eq!(kept(&[]), kept(&auto));
    assert_eq!(kept(&fp8), (Precision::Auto, Precision::Fp8E4m3));
}
