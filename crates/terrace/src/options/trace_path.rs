//! The file of a trace.

use std::path::{Path, PathBuf};

/// The file of one of several models: its name stands before the extension.
pub fn of_model(path: &Path, model: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(model.chars().map(plain).collect::<String>());
    name.push(".");
    name.push(path.extension().unwrap_or("json".as_ref()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_models_have_several_files() {
        let path = of_model(Path::new("/tmp/run.json"), "a/b 1.5");
        assert_eq!(path, Path::new("/tmp/run.a-b-1-5.json"));
        assert_eq!(of_model(Path::new("run"), "m"), Path::new("run.m.json"));
    }
}
