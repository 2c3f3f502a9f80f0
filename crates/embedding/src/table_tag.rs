//! What a table is called outside: in databases, in Kafka and in Redis.
//!
//! The names are HugeCTR's, so that rows which it wrote are found and its producers are heard.
//! They are the same for all models and releases that share a [`TagStyle`].

use std::fmt;

/// Which releases the names agree with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagStyle {
    /// The last release's: `hps_et.<model>.<table>`.
    Hps,
    /// That of releases up to 3.3: `hctr_et.<model>.<table>`.
    Hctr,
}

/// The name of one table in every database; also its Kafka topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableTag {
    style: TagStyle,
    text: String,
}

impl TagStyle {
    pub fn table_tag(self, model: &str, table: &str) -> TableTag {
        TableTag { style: self, text: format!("{}.{model}.{table}", self.prefix()) }
    }

    fn prefix(self) -> &'static str {
        match self {
            TagStyle::Hps => "hps_et",
            TagStyle::Hctr => "hctr_et",
        }
    }
}

impl TableTag {
    /// `None` where the text is no table's.
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, names) = text.split_once('.')?;
        let (model, table) = names.split_once('.')?;
        let style = [TagStyle::Hps, TagStyle::Hctr].into_iter().find(|it| it.prefix() == prefix)?;
        let is_named = !model.is_empty() && !table.is_empty();
        is_named.then(|| TableTag { style, text: text.to_owned() })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The model and the table in it.
    pub fn names(&self) -> (&str, &str) {
        let names = self.text.split_once('.').and_then(|(_, names)| names.split_once('.'));
        names.expect("a tag has a prefix, a model and a table")
    }

    /// What a database calls one of several versions of the table: the first has its tag, others
    /// a number behind it, which no configuration can give a table.
    pub fn storage(&self, slot: u32) -> TableTag {
        let text = match slot {
            0 => self.text.clone(),
            _ => format!("{}.{slot}", self.text),
        };
        TableTag { style: self.style, text }
    }

    /// Which of its versions a database calls so; `None` for those of other tables.
    pub fn slot_of(&self, storage: &str) -> Option<u32> {
        let rest = storage.strip_prefix(&self.text)?;
        if rest.is_empty() {
            return Some(0);
        }
        let slot = rest.strip_prefix('.')?.parse().ok()?;
        (self.storage(slot).text == storage).then_some(slot)
    }

    pub fn kafka_topic(&self) -> &str {
        &self.text
    }

    /// The Redis hash of a partition's rows, by the bytes of their keys.
    pub fn redis_value_key(&self, partition: u32) -> String {
        self.redis_key(partition, 'v')
    }

    /// The Redis hash of what is known of a partition's rows: when or how often they were used.
    pub fn redis_meta_key(&self, partition: u32) -> String {
        self.redis_key(partition, 't')
    }

    /// Terrace's own: who vouches for a partition's rows. In the slot of its rows.
    pub fn redis_trust_key(&self, partition: u32) -> String {
        match self.style {
            TagStyle::Hps => self.redis_key(partition, 'r'),
            TagStyle::Hctr => format!("{{{}}}r", self.redis_value_key(partition)),
        }
    }

    fn redis_key(&self, partition: u32, kind: char) -> String {
        let text = &self.text;
        match self.style {
            // The braces keep both hashes of a partition in one slot of a cluster.
            TagStyle::Hps => format!("hps_et{{{text}/p{partition}}}{kind}"),
            TagStyle::Hctr => format!("{text}/p{partition}/{kind}"),
        }
    }
}

impl fmt::Display for TableTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The slot of a Redis cluster that a key is in, of 16384.
///
/// The first text in braces decides alone, if it is not empty.
pub fn cluster_slot(redis_key: &str) -> u16 {
    let in_braces = redis_key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(text, _)| text)
        .filter(|text| !text.is_empty());
    crc16_xmodem(in_braces.unwrap_or(redis_key).as_bytes()) % 16384
}

fn crc16_xmodem(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use terrace_testkit::golden_set;

    use super::*;

    #[test]
    fn names_and_slots_are_those_of_the_reference() {
        let path = golden_set("ctr").join("hps_vectors.json");
        let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let text = vectors["tag"].as_str().unwrap();
        let parts: Vec<&str> = text.split('.').collect();
        let tag = TagStyle::Hps.table_tag(parts[1], parts[2]);
        assert_eq!(tag.as_str(), text);
        assert_eq!(tag.kafka_topic(), vectors["kafka"]["topic"].as_str().unwrap());
        for wanted in vectors["redis"].as_array().unwrap() {
            let partition = wanted["partition"].as_u64().unwrap() as u32;
            let (rows, meta) = (tag.redis_value_key(partition), tag.redis_meta_key(partition));
            assert_eq!(rows, wanted["value_key"].as_str().unwrap());
            assert_eq!(meta, wanted["meta_key"].as_str().unwrap());
            assert_eq!(u64::from(cluster_slot(&rows)), wanted["slot"].as_u64().unwrap());
            assert_eq!(cluster_slot(&rows), cluster_slot(&meta));
        }
    }

    #[test]
    fn the_older_names_have_no_braces() {
        let tag = TagStyle::Hctr.table_tag("dcn", "sparse_embedding1");
        assert_eq!(tag.to_string(), "hctr_et.dcn.sparse_embedding1");
        assert_eq!(tag.redis_value_key(3), "hctr_et.dcn.sparse_embedding1/p3/v");
        assert_eq!(tag.redis_meta_key(3), "hctr_et.dcn.sparse_embedding1/p3/t");
    }

    #[test]
    fn tags_are_known_by_their_form() {
        for style in [TagStyle::Hps, TagStyle::Hctr] {
            let tag = style.table_tag("dcn", "sparse_embedding1");
            assert_eq!(TableTag::parse(tag.as_str()), Some(tag));
        }
        for text in ["default", "hps_et", "hps_et.dcn", "hps_et..a", "hps_et.a.", "et.a.b", ""] {
            assert_eq!(TableTag::parse(text), None, "{text}");
        }
    }

    #[test]
    fn versions_of_a_table_differ_by_a_number() {
        let tag = TagStyle::Hps.table_tag("dcn", "a");
        assert_eq!(tag.storage(0), tag);
        assert_eq!(tag.storage(12).as_str(), "hps_et.dcn.a.12");
        assert!(TableTag::parse(tag.storage(12).as_str()).is_some(), "databases list it");
        let check = |text: &str, want: Option<u32>| assert_eq!(tag.slot_of(text), want, "{text}");
        check("hps_et.dcn.a", Some(0));
        check("hps_et.dcn.a.1", Some(1));
        check("hps_et.dcn.a.12", Some(12));
        for text in ["a", "a.0", "a.01", "a.+1", "a.", "ab", "a.b", "a.1.1", "a.99999999999"] {
            check(&format!("hps_et.dcn.{text}"), (text == "a").then_some(0));
        }
    }

    #[test]
    fn slots_follow_the_rules_of_a_cluster() {
        let check = |key: &str, want: u16| assert_eq!(cluster_slot(key), want, "{key}");
        // The check value of CRC16-XMODEM, which is below 16384.
        check("123456789", 0x31C3);
        check("{123456789}v", 0x31C3);
        check("a{123456789}{b}", 0x31C3);
        check("{}123456789", crc16_xmodem(b"{}123456789") % 16384);
        check("{123456789", crc16_xmodem(b"{123456789") % 16384);
        check("", 0);
    }
}
