//! An object's address: `s3://bucket/path`.

use std::io;

use object_store::path::Path;

#[derive(Debug, PartialEq)]
pub(super) struct ObjectUrl<'a> {
    pub(super) bucket: &'a str,
    pub(super) path: Path,
}

impl<'a> ObjectUrl<'a> {
    pub(super) fn parse(url: &'a str) -> io::Result<Self> {
        let wrong = |why: &str| {
            let text = format!("{why}; write s3://bucket/path");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        let rest = url.strip_prefix("s3://").ok_or_else(|| wrong("it is no s3:// URL"))?;
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || bucket.contains(|letter: char| !is_of_name(letter)) {
            return Err(wrong("a bucket's name is of letters, digits, dots, hyphens and _"));
        }
        if path.is_empty() {
            return Err(wrong("it names no object"));
        }
        // The library would take a slash away at both ends, and name another object.
        let parsed = Path::parse(path).ok().filter(|parsed| parsed.as_ref() == path);
        let path = parsed.ok_or_else(|| {
            wrong("its path has an empty part, a part . or .., or a control character")
        })?;
        Ok(ObjectUrl { bucket, path })
    }
}

/// Of buckets, also of those from before capitals and `_` were refused.
fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_bucket_and_a_path_in_it() {
        let check = |url: &str, want: Option<(&str, &str)>| {
            let found = ObjectUrl::parse(url).ok();
            let found = found.as_ref().map(|url| (url.bucket, url.path.as_ref()));
            assert_eq!(found, want, "{url}");
        };
        check("s3://models/wdl/1/key", Some(("models", "wdl/1/key")));
        check("s3://a.b-c_D/key", Some(("a.b-c_D", "key")));
        check("s3://models/with space/ü/key", Some(("models", "with space/ü/key")));
        check("s3://models/100%25/key", Some(("models", "100%25/key")));
        for wrong in [
            "models/key",
            "gs://models/key",
            "s3://",
            "s3:///key",
            "s3://models",
            "s3://models/",
            "s3://a@b/key",
            "s3://a?b/key",
            "s3://models//key",
            "s3://models/a//key",
            "s3://models/a/",
            "s3://models/a/../key",
            "s3://models/a\n/key",
        ] {
            check(wrong, None);
        }
    }
}
