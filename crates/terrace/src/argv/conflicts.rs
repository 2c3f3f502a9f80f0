//! An option that is set twice, under its own name and by a peer's flag: once is enough where both
//! mean the same, and an error where they do not.

use std::collections::HashSet;
use std::ffi::OsString;

use super::arguments::Argument;

/// An option that at least one peer's flag sets.
struct SetByPeer {
    option: String,
    value: String,
    /// What was typed to set it.
    typed: String,
}

/// The arguments as words, each option that a peer's flag sets among them once.
pub fn resolve(arguments: Vec<Argument>) -> Result<Vec<OsString>, String> {
    let of_peer = |argument: &Argument| match argument {
        Argument::Peer { own, .. } => Some(own.option),
        _ => None,
    };
    let peer_options: HashSet<&str> = arguments.iter().filter_map(of_peer).collect();
    let mut set: Vec<SetByPeer> = Vec::new();
    let mut words = Vec::new();
    for argument in arguments {
        match argument {
            Argument::Peer { typed, own } => {
                let option = own.option.to_owned();
                add(&mut set, SetByPeer { option, value: own.value, typed })?;
            }
            Argument::Own { long, value: Some(value) } if peer_options.contains(long.as_str()) => {
                let value = value.to_string_lossy().into_owned();
                let typed = format!("--{long} {value}");
                add(&mut set, SetByPeer { option: long, value, typed })?;
            }
            Argument::Own { long, value } => words.push(own_word(&long, value)),
            Argument::Word(word) => words.push(word),
        }
    }
    // First, for a bare `--` may end the options.
    let set = set.into_iter().map(|one| own_word(&one.option, Some(one.value.into())));
    Ok(set.chain(words).collect())
}

fn add(set: &mut Vec<SetByPeer>, one: SetByPeer) -> Result<(), String> {
    let Some(before) = set.iter_mut().find(|before| before.option == one.option) else {
        set.push(one);
        return Ok(());
    };
    match agreed(&one.option, &before.value, &one.value) {
        Some(value) => before.value = value,
        None => {
            return Err(format!(
                "{} and {} set one option (--{}) to different values; give one of them",
                before.typed, one.typed, one.option
            ));
        }
    }
    Ok(())
}

/// The value that both mean.
fn agreed(option: &str, a: &str, b: &str) -> Option<String> {
    let is_gpu = |device: &str| device.starts_with("cuda");
    let same_number = match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    let meant = match (a, b) {
        _ if a == b || same_number => a,
        // A GPU, and which one.
        ("auto", gpu) | (gpu, "auto") if option == "device" && is_gpu(gpu) => gpu,
        _ => return None,
    };
    Some(meant.to_owned())
}

fn own_word(long: &str, value: Option<OsString>) -> OsString {
    let mut word = OsString::from(format!("--{long}"));
    if let Some(value) = value {
        // Not a word of its own: it may begin with a hyphen.
        word.push("=");
        word.push(value);
    }
    word
}
