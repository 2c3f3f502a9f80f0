//! How a peer's value becomes ours.

/// From here on a number of layers means all of them, as people type 99 or 999.
const ALL_LAYERS: u64 = 99;

/// A number of tokens, with the letters that vLLM takes behind it; 0, -1 and `auto` are the
/// model's own.
pub fn context_tokens(text: &str) -> Result<Option<String>, String> {
    if matches!(text, "0" | "-1" | "auto") {
        return Ok(None);
    }
    let wrong = || format!("{text:?} is no number of tokens, such as 8192, 8k (8000) or 8K (8192)");
    let scales = [('k', 1e3), ('K', 1024.0), ('m', 1e6), ('M', 1024.0 * 1024.0)];
    let scale = scales.iter().find(|(letter, _)| text.ends_with(*letter));
    let Some((letter, scale)) = scale else {
        let tokens: u64 = text.parse().map_err(|_| wrong())?;
        return Ok(Some(tokens.to_string()));
    };
    let number: f64 = text.trim_end_matches(*letter).parse().map_err(|_| wrong())?;
    let tokens = number * scale;
    // Far above any context; keeps the conversion below exact.
    if !(1.0..1e15).contains(&tokens) || tokens.fract() != 0.0 {
        return Err(wrong());
    }
    Ok(Some((tokens as u64).to_string()))
}

/// A number; -1 is the default.
pub fn sequences(text: &str) -> Result<Option<String>, String> {
    Ok((text != "-1").then(|| text.to_owned()))
}

pub fn gpu_layers(text: &str) -> Result<Option<String>, String> {
    let device = match (text, text.parse::<u64>()) {
        (_, Ok(0)) => "cpu",
        ("all" | "auto" | "-1", _) => "auto",
        (_, Ok(ALL_LAYERS..)) => "auto",
        (_, Ok(_)) => {
            return Err("all layers of a model run on one device: say 99 or all for the GPU, 0 \
                        for the CPU (or --device)"
                .to_owned());
        }
        _ => return Err(format!("{text:?} is no number of layers: say 0, 99 or all")),
    };
    Ok(Some(device.to_owned()))
}

pub fn device_number(text: &str) -> Result<Option<String>, String> {
    match text.parse::<u32>() {
        Ok(number) => Ok(Some(format!("cuda:{number}"))),
        Err(_) => Err(format!("{text:?} is no number of a GPU, such as 0")),
    }
}

/// What stands behind a colon is a file's quantisation for llama.cpp, and a file or a revision
/// here.
pub fn hub_model(text: &str) -> Result<Option<String>, String> {
    match text.split_once(':') {
        Some((repo, tag)) if !tag.ends_with(".gguf") => {
            Err(format!("name the file instead of {tag}: --model {repo}:FILE.gguf"))
        }
        _ => Ok(Some(text.to_owned())),
    }
}

pub fn log_level(text: &str) -> Result<Option<String>, String> {
    let level = match text {
        "critical" => "error",
        "warning" => "warn",
        other => other,
    };
    Ok(Some(level.to_owned()))
}
