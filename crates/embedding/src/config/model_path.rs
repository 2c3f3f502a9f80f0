//! Where a part of a model lies: on a disk or in an object store.

use std::path::{Path, PathBuf};

use super::fields::Fields;
use super::scalar::shown;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ModelPath {
    /// A folder or a file; a relative one has got the configuration's folder in front.
    Local(PathBuf),
    /// An `s3://` URL.
    ObjectStore(String),
}

impl ModelPath {
    pub(super) fn read(
        fields: &mut Fields<'_>,
        name: &'static str,
        folder: Option<&Path>,
    ) -> Option<Self> {
        let path = fields.path_of(name);
        let text = fields.text(name).filter(|text| !text.is_empty())?;
        ModelPath::parse(text, &path, folder, fields)
    }

    /// The text at `path` of a configuration.
    pub(super) fn parse(
        text: &str,
        path: &str,
        folder: Option<&Path>,
        fields: &Fields<'_>,
    ) -> Option<Self> {
        let parsed = match text.split_once("://") {
            Some(("s3", rest)) if !rest.is_empty() => Some(ModelPath::ObjectStore(text.to_owned())),
            Some(_) => None,
            None => local_path(text, folder).map(ModelPath::Local),
        };
        if parsed.is_none() {
            fields.wrong(path, shown(text), "a path, or an s3:// URL");
        }
        parsed
    }
}

/// A path from the configuration's folder; `None` for what no file can be called.
pub fn local_path(text: &str, folder: Option<&Path>) -> Option<PathBuf> {
    let is_path = !text.is_empty() && !text.contains('\0');
    is_path.then(|| folder.unwrap_or(Path::new("")).join(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::report::Report;
    use super::*;

    #[test]
    fn relative_paths_are_from_the_configurations_folder() {
        let check = |text: &str, folder: Option<&str>, want: Option<ModelPath>| {
            let (value, report) = (json!({ "file": text }), Report::default());
            let mut fields = Fields::new("", value.as_object().unwrap(), &report);
            let found = ModelPath::read(&mut fields, "file", folder.map(Path::new));
            assert_eq!(found, want, "{text}");
            assert_eq!(report.finish().is_ok(), want.is_some() || text.is_empty(), "{text}");
        };
        let local = |path: &str| Some(ModelPath::Local(path.into()));
        check("1/dcn.json", Some("/models"), local("/models/1/dcn.json"));
        check("1/dcn.json", None, local("1/dcn.json"));
        check("/a/b", Some("/models"), local("/a/b"));
        check("s3://b/k", Some("/m"), Some(ModelPath::ObjectStore("s3://b/k".to_owned())));
        check("", Some("/models"), None);
        check("hdfs://a/b", None, None);
        check("s3://", None, None);
        check("a\0b", None, None);
    }
}
