//! What a server says when it listens: its address, and a line to try that works as it stands.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::{Value, json};
use terrace_embedding::KeyKind;
use terrace_engine::predict::RequestShape;

/// Where the line to try takes the key from. The key itself is not printed: terminals are
/// recorded, and logs are read by others.
const KEY: &str = "TERRACE_API_KEY";

const ANY_CERTIFICATE: &str = "  \
  (-k accepts any certificate, which is safe on this machine; elsewhere use a name that the
  certificate is for, and --cacert FILE if it is signed by nobody you trust)
";

pub struct Welcome {
    pub trial: Trial,
    pub needs_key: bool,
    pub is_encrypted: bool,
}

/// A request to the first model, or to the first table.
pub struct Trial {
    route: Cow<'static, str>,
    body: Value,
}

impl Trial {
    /// `chats`: whether it has a chat template.
    pub fn of_language_model(model: &str, chats: bool) -> Self {
        match chats {
            true => {
                let messages = json!([{"role": "user", "content": "Hello!"}]);
                let body = json!({"model": model, "messages": messages});
                Trial { route: "v1/chat/completions".into(), body }
            }
            false => {
                let body = json!({"model": model, "prompt": "Hello"});
                Trial { route: "v1/completions".into(), body }
            }
        }
    }

    /// What a request must have depends on the model; its answer says what is missing.
    pub fn of_recommender(model: &str, retrieves: bool) -> Self {
        let mut body = json!({"model": model, "user": "anna", "items": [1, 2]});
        if retrieves {
            return Trial { route: "v1/retrieve".into(), body };
        }
        body["candidates"] = json!([3, 4]);
        Trial { route: "v1/rank".into(), body }
    }

    /// A key that is not there gets the default value.
    pub fn of_table(model: &str, table: &str) -> Self {
        let route = format!("v1/tables/{model}.{table}/lookup").into();
        Trial { route, body: json!({"keys": [1, 2]}) }
    }

    /// One sample, with a key in each slot.
    pub fn of_click_model(model: &str, shape: &RequestShape) -> Self {
        let tensor = |name: &str, datatype: &str, data: Vec<usize>| {
            let shape = [1, data.len()];
            json!({"name": name, "shape": shape, "datatype": datatype, "data": data})
        };
        let slots: usize = shape.tables.iter().map(|table| table.slots).sum();
        let offsets = shape.tables.iter().flat_map(|table| 0..=table.slots).collect();
        let keys = match shape.key_kind {
            KeyKind::I64 => "INT64",
            KeyKind::U32 => "UINT32",
        };
        let inputs = json!([
            tensor("DES", "FP32", vec![0; shape.dense]),
            tensor("CATCOLUMN", keys, (0..slots).collect()),
            tensor("ROWINDEX", "INT32", offsets),
        ]);
        let route = format!("v2/models/{model}/infer").into();
        Trial { route, body: json!({"inputs": inputs}) }
    }
}

impl Welcome {
    /// `addresses` are the one to try, and others that are the same.
    pub fn lines(&self, addresses: &[SocketAddr]) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        let (address, others) = addresses.split_first().expect("it listens somewhere");
        let mut lines = format!("listening on {scheme}://{address}\n");
        for other in others {
            lines.push_str(&format!("and on {scheme}://{other}, for gRPC\n"));
        }
        lines.push_str(match self.needs_key {
            true => "try this, with one of your keys instead of the dots:\n",
            false => "try this:\n",
        });
        if self.needs_key {
            lines.push_str(&format!("  export {KEY}=...\n"));
        }
        lines.push_str(&self.line_to_try(scheme, reachable(*address)));
        if self.is_encrypted {
            lines.push_str(ANY_CERTIFICATE);
        }
        lines
    }

    fn line_to_try(&self, scheme: &str, address: SocketAddr) -> String {
        let Trial { route, body } = &self.trial;
        let any_certificate = if self.is_encrypted { " -k" } else { "" };
        let key = match self.needs_key {
            true => format!("    -H \"Authorization: Bearer ${KEY}\" \\\n"),
            false => String::new(),
        };
        format!(
            "  curl{any_certificate} {} -H 'Content-Type: application/json' \\\n{key}    -d {}\n",
            quoted(&format!("{scheme}://{address}/{route}")),
            quoted(&body.to_string())
        )
    }
}

/// An address that means every one of this machine cannot be reached; its own can.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// For a shell; as it is where nothing in it means anything to a shell.
fn quoted(text: &str) -> String {
    if text.chars().all(|c| c.is_ascii_alphanumeric() || "/:.-_".contains(c)) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use terrace_engine::predict::SlotsOfTable;

    use super::*;

    fn plain(trial: Trial) -> Welcome {
        Welcome { trial, needs_key: false, is_encrypted: false }
    }

    fn chat() -> Welcome {
        plain(Trial::of_language_model("a", true))
    }

    #[track_caller]
    fn check(welcome: Welcome, address: &str, wanted: &[&str]) {
        let lines = welcome.lines(&[address.parse().unwrap()]);
        for want in wanted {
            assert!(lines.contains(want), "no {want} in {lines}");
        }
    }

    #[test]
    fn every_address_of_the_machine_is_reached_at_its_own() {
        let any = ["listening on http://0.0.0.0:80\n", "curl http://127.0.0.1:80/v1/chat/"];
        check(chat(), "0.0.0.0:80", &any);
        check(chat(), "[::]:80", &["curl 'http://[::1]:80/v1/chat/completions' "]);
        check(chat(), "10.1.2.3:80", &["curl http://10.1.2.3:80/v1/chat/completions "]);
    }

    #[test]
    fn a_model_without_a_chat_template_gets_a_completion() {
        let welcome = plain(Trial::of_language_model("a", false));
        check(welcome, "127.0.0.1:80", &["127.0.0.1:80/v1/completions ", r#""prompt":"Hello""#]);
    }

    #[test]
    fn a_recommender_is_asked_for_what_it_does() {
        let welcome = plain(Trial::of_recommender("feed", false));
        check(welcome, "127.0.0.1:80", &["127.0.0.1:80/v1/rank ", r#""candidates":[3,4]"#]);
        let welcome = plain(Trial::of_recommender("feed", true));
        check(welcome, "127.0.0.1:80", &["127.0.0.1:80/v1/retrieve ", r#""items":[1,2]"#]);
    }

    #[test]
    fn a_table_is_looked_up_in() {
        let welcome = plain(Trial::of_table("dcn", "emb0"));
        let wanted = ["127.0.0.1:80/v1/tables/dcn.emb0/lookup ", r#"{"keys":[1,2]}"#];
        check(welcome, "127.0.0.1:80", &wanted);
    }

    #[test]
    fn a_click_through_model_gets_one_sample() {
        let tables = [(2, 2), (1, 4)].map(|(slots, keys_most)| SlotsOfTable { slots, keys_most });
        let shape = RequestShape {
            dense: 1,
            tables: tables.to_vec(),
            key_kind: KeyKind::U32,
            outputs: 1,
            max_samples: 8,
        };
        let wanted = [
            "127.0.0.1:80/v2/models/dcn/infer ",
            r#"{"name":"DES","shape":[1,1],"datatype":"FP32","data":[0]}"#,
            r#"{"name":"CATCOLUMN","shape":[1,3],"datatype":"UINT32","data":[0,1,2]}"#,
            r#"{"name":"ROWINDEX","shape":[1,5],"datatype":"INT32","data":[0,1,2,0,1]}"#,
        ];
        check(plain(Trial::of_click_model("dcn", &shape)), "127.0.0.1:80", &wanted);
    }

    #[test]
    fn any_name_stands_quoted_for_json_and_for_the_shell() {
        let welcome = plain(Trial::of_language_model(r#"o'ne "b""#, true));
        check(welcome, "127.0.0.1:80", &[r#""model":"o'\''ne \"b\"""#]);
    }
}
