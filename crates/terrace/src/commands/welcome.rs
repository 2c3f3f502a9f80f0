//! What a server says when it listens: its address, and a line to try that works as it stands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::json;

/// Where the line to try takes the key from. The key itself is not printed: terminals are
/// recorded, and logs are read by others.
const KEY: &str = "TERRACE_API_KEY";

const ANY_CERTIFICATE: &str = "  \
  (-k accepts any certificate, which is safe on this machine; elsewhere use a name that the
  certificate is for, and --cacert FILE if it is signed by nobody you trust)
";

pub struct Welcome {
    /// The name of the first model.
    pub model: String,
    /// Whether that model has a chat template.
    pub chats: bool,
    pub needs_key: bool,
    pub is_encrypted: bool,
}

impl Welcome {
    pub fn lines(&self, address: SocketAddr) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        let mut lines = format!("listening on {scheme}://{address}\n");
        lines.push_str(match self.needs_key {
            true => "try this, with one of your keys instead of the dots:\n",
            false => "try this:\n",
        });
        if self.needs_key {
            lines.push_str(&format!("  export {KEY}=...\n"));
        }
        lines.push_str(&self.line_to_try(scheme, reachable(address)));
        if self.is_encrypted {
            lines.push_str(ANY_CERTIFICATE);
        }
        lines
    }

    fn line_to_try(&self, scheme: &str, address: SocketAddr) -> String {
        let (route, body) = match self.chats {
            true => {
                let messages = json!([{"role": "user", "content": "Hello!"}]);
                ("chat/completions", json!({"model": self.model, "messages": messages}))
            }
            false => ("completions", json!({"model": self.model, "prompt": "Hello"})),
        };
        let any_certificate = if self.is_encrypted { " -k" } else { "" };
        let key = match self.needs_key {
            true => format!("    -H \"Authorization: Bearer ${KEY}\" \\\n"),
            false => String::new(),
        };
        format!(
            "  curl{any_certificate} {} -H 'Content-Type: application/json' \\\n{key}    -d {}\n",
            quoted(&format!("{scheme}://{address}/v1/{route}")),
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
    use super::*;

    const PLAIN: Welcome =
        Welcome { model: String::new(), chats: true, needs_key: false, is_encrypted: false };

    #[track_caller]
    fn check(welcome: Welcome, address: &str, wanted: &[&str]) {
        let lines = welcome.lines(address.parse().unwrap());
        for want in wanted {
            assert!(lines.contains(want), "no {want} in {lines}");
        }
    }

    #[test]
    fn every_address_of_the_machine_is_reached_at_its_own() {
        let any = ["listening on http://0.0.0.0:80\n", "curl http://127.0.0.1:80/v1/chat/"];
        check(PLAIN, "0.0.0.0:80", &any);
        check(PLAIN, "[::]:80", &["curl 'http://[::1]:80/v1/chat/completions' "]);
        check(PLAIN, "10.1.2.3:80", &["curl http://10.1.2.3:80/v1/chat/completions "]);
    }

    #[test]
    fn a_model_without_a_chat_template_gets_a_completion() {
        let welcome = Welcome { chats: false, ..PLAIN };
        check(welcome, "127.0.0.1:80", &["127.0.0.1:80/v1/completions ", r#""prompt":"Hello""#]);
    }

    #[test]
    fn any_name_stands_quoted_for_json_and_for_the_shell() {
        let welcome = Welcome { model: r#"o'ne "b""#.to_owned(), ..PLAIN };
        check(welcome, "127.0.0.1:80", &[r#""model":"o'\''ne \"b\"""#]);
    }
}
