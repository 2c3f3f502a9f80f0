//! The Redis tier against one server that is no cluster, and servers that do not let it in.

use std::time::Duration;

use terrace_testkit::{RedisServer, wait_until};
use terrace_tiers::{PageTier, RedisTier, RedisTierConfig, TierError};

use crate::pages::{RECORD_BYTES, get, key, put};

fn tier(nodes: &[String]) -> RedisTier {
    let config = RedisTierConfig::new(nodes.to_vec(), RECORD_BYTES);
    // A busy machine is not what these tests are about.
    let timeout = Duration::from_secs(5);
    RedisTier::connect(RedisTierConfig { timeout, ..config }).expect("a tier")
}

#[track_caller]
fn check_refused(nodes: &[&str], kind: &str, words: &[&str]) {
    let nodes: Vec<_> = nodes.iter().map(|node| node.to_string()).collect();
    let config = RedisTierConfig::new(nodes, RECORD_BYTES);
    let error = match RedisTier::connect(config) {
        Ok(tier) => get(&tier, &[1]).expect_err("refused"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert!(!text.contains("secret"), "a password in {text}");
}

#[test]
fn one_server_that_is_no_cluster_is_a_tier() {
    let mut server = RedisServer::start(&[]);
    let tier = tier(&[server.address()]);
    let pages: Vec<u64> = (0..50).collect();
    assert_eq!(put(&tier, &pages).expect("a server").kept, vec![true; 50]);
    assert_eq!(get(&tier, &pages).expect("a server"), vec![true; 50]);
    assert_eq!(tier.remove_prefix(key(7).as_bytes()).expect("a server"), 1);
    assert_eq!(tier.remove_prefix(&[]).expect("a server"), 49);
    server.kill();
    let error = tier.remove_prefix(&[]).expect_err("it is gone");
    assert!(matches!(error, TierError::Unavailable(_)), "{error}");
    let error = get(&tier, &pages).expect_err("it is gone");
    assert!(matches!(error, TierError::Unavailable(_)), "{error}");
    server.start_again();
    wait_until("it is used again", || put(&tier, &pages).is_ok());
}

#[test]
fn a_full_server_says_so_and_gives_what_it_has() {
    let limits = ["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"];
    let server = RedisServer::start(&limits);
    let tier = tier(&[server.address()]);
    put(&tier, &[1]).expect("a server");
    let pages: Vec<u64> = (2..600).collect();
    let error = put(&tier, &pages).expect_err("there is no room for 5 MB");
    assert!(matches!(&error, TierError::Full(text) if text.contains("maxmemory")), "{error}");
    assert_eq!(get(&tier, &[1]).expect("a server"), [true]);
    tier.remove_many(&crate::pages::keys(2..600)).expect("a server");
    assert_eq!(put(&tier, &[2]).expect("a server").kept, [true]);
}

#[test]
fn a_password_is_asked_for_and_taken() {
    let server = RedisServer::start(&["--requirepass", "secret"]);
    let address = server.address();
    check_refused(&[&address], "unavailable", &["redis://user:password@host:port"]);
    let wrong = format!("redis://:secret2@{address}");
    check_refused(&[&wrong], "unavailable", &["redis://user:password@host:port"]);
    let tier = tier(&[format!("redis://:secret@{address}")]);
    assert_eq!(put(&tier, &[1]).expect("a server").kept, [true]);
}

#[test]
fn nodes_that_are_no_cluster_or_not_there_are_refused() {
    let servers = [RedisServer::start(&[]), RedisServer::start(&[])];
    let [one, other] = servers.each_ref().map(RedisServer::address);
    check_refused(&[&one, &other], "protocol", &["2 nodes", "not a cluster"]);
    drop(servers);
    check_refused(&[&one], "unavailable", &["check that it runs"]);
}

#[test]
fn nodes_that_cannot_be_read_are_refused() {
    let form = "redis://user:password@host:port";
    check_refused(&["rediss://:secret@localhost:1"], "unavailable", &["TLS", form]);
    check_refused(&["http://:secret@localhost:1"], "unavailable", &["cannot be read", form]);
    check_refused(&["localhost:secret"], "unavailable", &["cannot be read", form]);
    check_refused(&[], "unavailable", &["name one"]);
}
