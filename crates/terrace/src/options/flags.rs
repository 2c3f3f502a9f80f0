//! Values as several options take them: `true` and `false`, also as Python spells them, and shares.

/// Any case: `true`, `True`, `FALSE`.
pub fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}

/// Less than the whole.
pub fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..1.0).contains(part));
    part.ok_or_else(|| "it must be a number from 0 to 1, less than 1".to_owned())
}

#[cfg(test)]
mod tests {
    use terrace_engine::{InferenceConfig, KwArg, Lengths, YarnRope};

    use super::flag;
    use crate::argv::settle;
    use crate::cli::Command;
    use crate::options::EngineDefaults;
    use crate::settings_file::parse;

    fn config(args: &str) -> Result<InferenceConfig, clap::Error> {
        let words = ["terrace", "serve"].into_iter().chain(args.split_whitespace());
        match parse(settle(words.map(Into::into))?)?.command {
            Command::Serve(serve) => {
                Ok(serve.engine.inference_config(EngineDefaults::serving(512)).expect("options"))
            }
            other => panic!("parsed {other:?}"),
        }
    }

    #[test]
    fn a_flag_has_python_s_spellings_too() {
        for text in ["true", "True", "TRUE"] {
            assert_eq!(flag(text), Ok(true));
        }
        assert_eq!(flag("False"), Ok(false));
        for text in ["", "1", "yes", "truee"] {
            assert_eq!(flag(text), Err("it must be true or false".to_owned()), "{text:?}");
        }
    }

    /// `--yarn_rope False` and flags set to `True` were refused, though keys_values prints them so.
    #[test]
    fn the_spellings_that_keys_values_documents_are_taken() {
        let config = config(
            "--yarn_rope False --kv_cache.name h2o-default --kv_cache.cache_length 16384 \
             --kv_cache.chunk_size 1024 --kv_cache.randomize_chunk_sizes True \
             --kv_cache.cache_kwargs.normalize_scores True --kv_cache.cache_kwargs.grace_period 8 \
             --kv_cache.cache_kwargs.max_chunk_size 64 --kv_cache.allocate_buffers True \
             --kv_cache.cache_kwargs.keep_initial_fraction 0.1 --kv_cache.cpu_offload False \
             --kv_cache.range_is_prefix True",
        )
        .expect("documented options");
        assert_eq!(config.yarn_rope, Some(YarnRope::Never));
        let kv_cache = &config.kv_cache;
        assert_eq!(kv_cache.name.as_deref(), Some("h2o-default"));
        assert_eq!(kv_cache.cache_length, Some(Lengths::One(16_384)));
        assert_eq!((kv_cache.chunk_size, kv_cache.randomize_chunk_sizes), (Some(1024), Some(true)));
        let argument = |name: &str| kv_cache.cache_kwargs.get(name).cloned();
        assert_eq!(argument("normalize_scores"), Some(KwArg::Flag(true)));
        assert_eq!(argument("grace_period"), Some(KwArg::Number(8.0)));
        assert_eq!(argument("max_chunk_size"), Some(KwArg::Number(64.0)));
        assert_eq!(argument("keep_initial_fraction"), Some(KwArg::Number(0.1)));
    }

    #[test]
    fn short_names_and_bare_switches_are_taken_as_well() {
        let config = config(
            "--kv_cache.normalize_scores False --kv_cache.grace_period 3 \
             --kv_cache.init_grace_tokens 2 --kv-cache.randomize-chunk-sizes --yarn-rope DYNAMIC",
        )
        .expect("documented options");
        let argument = |name: &str| config.kv_cache.cache_kwargs.get(name).cloned();
        assert_eq!(argument("normalize_scores"), Some(KwArg::Flag(false)));
        assert_eq!(argument("grace_period"), Some(KwArg::Number(3.0)));
        assert_eq!(argument("init_grace_tokens"), Some(KwArg::Number(2.0)));
        assert_eq!(config.kv_cache.randomize_chunk_sizes, Some(true));
        assert_eq!(config.yarn_rope, Some(YarnRope::Dynamic));
    }

    #[test]
    fn what_has_one_value_here_is_refused_at_the_other() {
        for (args, want) in [
            ("--kv_cache.cpu_offload True", "pages stay on their device"),
            ("--kv_cache.allocate_buffers False", "all pages are taken at the start"),
            ("--kv_cache.cache_kwargs.range_is_prefix False", "sequences are not padded"),
            ("--yarn_rope never", "[possible values: true, false, dynamic]"),
        ] {
            let error = config(args).expect_err(args).to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
