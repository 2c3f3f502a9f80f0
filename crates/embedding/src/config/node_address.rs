//! The servers of a cluster: `host[:port]`, several with `;` or `,` between them.

use std::fmt;

use super::fields::Fields;
use super::scalar::shown;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeAddress {
    /// A name or an IP address; IPv6 without brackets.
    pub host: String,
    pub port: u16,
}

impl NodeAddress {
    fn parse(text: &str, default_port: u16) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                host.parse::<std::net::Ipv6Addr>().ok()?;
                (host, port.is_empty().then_some(None).or(port.strip_prefix(':').map(Some))?)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_name = !host.is_empty() && host.len() <= 253 && host.chars().all(is_of_name);
        let is_known = is_name || text.starts_with('[');
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0)?,
            None => default_port,
        };
        is_known.then(|| NodeAddress { host: host.to_owned(), port })
    }

    /// All servers of a field; `default` where it is not given.
    pub(super) fn read(fields: &mut Fields<'_>, name: &'static str, default: Self) -> Vec<Self> {
        let Some(texts) = fields.texts(name) else { return vec![default] };
        let mut addresses = Vec::new();
        for (path, text) in &texts {
            for piece in text.split([';', ',']).map(str::trim) {
                match NodeAddress::parse(piece, default.port) {
                    Some(address) => addresses.push(address),
                    // What stands before the host may be a password.
                    None if piece.contains('@') => {
                        let allowed = "host[:port]; name them in user_name and password";
                        fields.wrong(path, "a user or a password", allowed);
                    }
                    None => fields.wrong(path, shown(piece), "host[:port], or several with ; or ,"),
                }
            }
        }
        if texts.is_empty() {
            fields.wrong(&fields.path_of(name), "a list of 0", "at least one host[:port]");
        }
        addresses
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::report::Report;
    use super::*;

    fn check(addresses: Value, want: Result<&[&str], &str>) {
        let value = json!({ "address": addresses });
        let report = Report::default();
        let mut fields = Fields::new("db", value.as_object().unwrap(), &report);
        let default = NodeAddress { host: "127.0.0.1".to_owned(), port: 7000 };
        let found = NodeAddress::read(&mut fields, "address", default);
        let found: Vec<String> = found.iter().map(NodeAddress::to_string).collect();
        match (report.finish(), want) {
            (Ok(_), Ok(want)) => assert_eq!(found, want, "{addresses}"),
            (Err(error), Err(want)) => assert_eq!(error.to_string(), want, "{addresses}"),
            (result, want) => panic!("{addresses}: {result:?} instead of {want:?}"),
        }
    }

    #[test]
    fn every_server_of_a_list_is_kept() {
        check(json!(null), Ok(&["127.0.0.1:7000"]));
        check(json!("10.0.0.1:1;b:2;c-d.e_f"), Ok(&["10.0.0.1:1", "b:2", "c-d.e_f:7000"]));
        check(json!("a:1, b:2 ,c"), Ok(&["a:1", "b:2", "c:7000"]));
        check(
            json!(["a:1;b", "[::1]:3", "[::2]"]),
            Ok(&["a:1", "b:7000", "[::1]:3", "[::2]:7000"]),
        );
    }

    #[test]
    fn what_is_no_server_is_refused() {
        let wrong = |piece: &str| {
            let text = "allowed: host[:port], or several with ; or ,";
            format!("db.address: found {piece:?}, {text}")
        };
        let pieces =
            ["", "a:", ":1", "a:0", "a:65536", "a:b", "a:1:2", "[::1", "[::1]2", "[a]", "x y", "é"];
        for piece in pieces {
            check(json!(piece), Err(&wrong(piece)));
        }
        check(json!("a:1;;b:2"), Err(&wrong("")));
        check(json!("redis://a:1"), Err(&wrong("redis://a:1")));
        check(
            json!("redis://me:secret@a:1"),
            Err("db.address: found a user or a password, allowed: host[:port]; name them in \
                 user_name and password"),
        );
        check(json!([]), Err("db.address: found a list of 0, allowed: at least one host[:port]"));
        check(json!(7), Err("db.address: found 7, allowed: a string or a list of strings"));
    }
}
