//! Users, passwords and certificates.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use terrace_embedding::{KeyKind, PartitionRule, RedisDatabase, RowStore};
use terrace_testkit::{RedisCluster, RedisServer, free_port};
use terrace_tiers::TierError;

use crate::redis_level::{LONG, config, found, put, spec};

/// Works, or is refused with these words.
#[track_caller]
fn check(nodes: &[String], fields: Value, want: Result<(), &[&str]>) {
    let case = fields.to_string();
    let count = || -> Result<u64, TierError> {
        let config = config(nodes, fields);
        let database = RedisDatabase::connect(&config, PartitionRule::Mix, LONG)?;
        let store = database.table(&spec("t", KeyKind::I64, 1));
        store.count()?;
        put(&store, 0..100);
        assert_eq!(found(&store, &[1, 99, 100], 1), [true, true, false]);
        store.count()
    };
    match (count(), want) {
        (Ok(count), Ok(())) => assert_eq!(count, 100, "{case}"),
        (Err(error), Err(words)) => {
            let text = error.to_string();
            assert!(matches!(error, TierError::Unavailable(_)), "{case}: {text}");
            assert!(words.iter().all(|word| text.contains(word)), "{case}: {text}");
            assert!(!text.contains("secret"), "a password in {text}");
        }
        (result, _) => panic!("{case}: {result:?}"),
    }
}

#[test]
fn users_and_passwords_are_asked_for_and_taken() {
    let server = RedisServer::start(&["--requirepass", "secret"]);
    let nodes = [server.address()];
    let refused: &[&str] = &["user_name and password", "HMGET"];
    check(&nodes, json!({}), Err(refused));
    check(&nodes, json!({ "password": "secret2" }), Err(refused));
    check(&nodes, json!({ "password": "secret" }), Ok(()));
    server.command(&["ACL", "SETUSER", "rows", "on", ">secret3", "~hps_et*", "+@all"]);
    check(&nodes, json!({ "user_name": "rows", "password": "secret3" }), Ok(()));
    check(&nodes, json!({ "user_name": "rows", "password": "secret" }), Err(refused));
    check(&nodes, json!({ "user_name": "nobody" }), Err(refused));
    server.command(&["ACL", "SETUSER", "free", "on", "nopass", "~*", "+@all"]);
    check(&nodes, json!({ "user_name": "free" }), Ok(()));
    server.command(&["ACL", "SETUSER", "other", "on", ">secret4", "~other*", "+@all"]);
    check(&nodes, json!({ "user_name": "other", "password": "secret4" }), Err(refused));
}

#[test]
fn all_nodes_of_a_cluster_get_the_password() {
    let password = || ["--requirepass", "secret", "--masterauth", "secret"].map(str::to_owned);
    let cluster = RedisCluster::start_each(|| password().to_vec());
    check(&cluster.nodes(), json!({ "password": "secret" }), Ok(()));
    check(&cluster.nodes(), json!({ "password": "secret2" }), Err(&["user_name and password"]));
}

/// The name that all servers' certificates are for; nowhere else.
const NAME: &str = "rows.example";

/// An authority, a certificate of a server and one of a client, as files.
fn certificates() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| {
        std::fs::write(folder.path().join(name), text).expect("a file");
    };
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Of another name than what it signs, or those would seem to have signed themselves.
    params.distinguished_name.push(DnType::CommonName, "authority");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
    let ca = ca.expect("an authority");
    write("ca.pem", ca.pem());
    for name in ["server", "client_cert"] {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![NAME.to_owned()]).expect("a name");
        write(&format!("{name}.pem"), params.signed_by(&key, &ca).expect("signed").pem());
        let key_name = if name == "server" { "server_key" } else { "client_key" };
        write(&format!("{key_name}.pem"), key.serialize_pem());
    }
    folder
}

fn server_options(folder: &Path, auth_clients: &str) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut options = vec!["--tls-port".to_owned(), free_port().to_string()];
    for (name, value) in [
        ("--tls-cert-file", file("server.pem")),
        ("--tls-key-file", file("server_key.pem")),
        ("--tls-ca-cert-file", file("ca.pem")),
        ("--tls-auth-clients", auth_clients.to_owned()),
    ] {
        options.extend([name.to_owned(), value]);
    }
    options
}

/// As a configuration has it, with some fields changed.
fn tls(folder: &Path, changes: Value) -> Value {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut fields = json!({
        "enable_tls": true,
        "tls_ca_certificate": file("ca.pem"),
        "tls_client_certificate": file("client_cert.pem"),
        "tls_client_key": file("client_key.pem"),
        "tls_server_name_identification": NAME,
    });
    for (name, value) in changes.as_object().expect("changes") {
        fields[name] = value.clone();
    }
    fields
}

#[test]
fn servers_are_reached_over_tls_and_must_be_who_they_say() {
    let (files, others) = (certificates(), certificates());
    let options = server_options(files.path(), "yes");
    let node = [format!("127.0.0.1:{}", options[1])];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let _server = RedisServer::start(&options);
    let file = |folder: &TempDir, name: &str| json!(folder.path().join(name).display().to_string());
    let with = |changes: Value| tls(files.path(), changes);
    check(&node, with(json!({})), Ok(()));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(others.path().join("ca.pem"), folder.path().join("a.pem")).expect("a copy");
    std::fs::copy(files.path().join("ca.pem"), folder.path().join("b.crt")).expect("a copy");
    check(&node, with(json!({ "tls_ca_certificate": file(&folder, "") })), Ok(()));
    let wrong: &[&str] = &["certificate", "tls_ca_certificate"];
    check(&node, with(json!({ "tls_server_name_identification": "b.example" })), Err(wrong));
    check(&node, with(json!({ "tls_ca_certificate": file(&others, "ca.pem") })), Err(wrong));
    let untrusted = json!({
        "tls_client_certificate": file(&others, "client_cert.pem"),
        "tls_client_key": file(&others, "client_key.pem"),
    });
    check(&node, with(untrusted), Err(&["tls_client_certificate"]));
    let absent = json!({
        "tls_client_certificate": file(&folder, "client_cert.pem"),
        "tls_client_key": file(&folder, "client_key.pem"),
    });
    check(&node, with(absent), Err(&["tls_client_certificate"]));
    check_files(&node, &files, &others);
}

/// What is wrong with files is said before anything is connected.
fn check_files(node: &[String], files: &TempDir, others: &TempDir) {
    let file = |folder: &TempDir, name: &str| json!(folder.path().join(name).display().to_string());
    let refused = |changes: Value, words: &[&str]| {
        let config = config(node, tls(files.path(), changes));
        let error = RedisDatabase::connect(&config, PartitionRule::Mix, LONG).err();
        let text = error.expect("refused").to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    let cannot = "cannot be used";
    refused(json!({ "tls_ca_certificate": file(files, "x.pem") }), &["x.pem", cannot]);
    refused(json!({ "tls_ca_certificate": file(files, "server_key.pem") }), &["no certificate"]);
    refused(json!({ "tls_client_certificate": file(files, "x.pem") }), &["x.pem", cannot]);
    refused(json!({ "tls_client_key": file(files, "ca.pem") }), &["ca.pem", cannot]);
    refused(json!({ "tls_client_key": file(others, "client_key.pem") }), &["client_key.pem"]);
    refused(json!({ "tls_server_name_identification": "a b" }), &["\"a b\"", "name a host"]);
}

/// Nodes name themselves by address, and their certificates are for one name.
#[test]
fn a_cluster_is_reached_over_tls() {
    let files = certificates();
    let cluster = RedisCluster::start_each(|| {
        let mut options = server_options(files.path(), "no");
        options.extend(["--tls-cluster", "yes"].map(str::to_owned));
        options
    });
    let reply = cluster.servers[0].command(&["CONFIG", "GET", "tls-port"]);
    let node = [format!("127.0.0.1:{}", reply.list()[1].text())];
    let absent =
        json!({ "tls_client_certificate": "client_cert.pem", "tls_client_key": "client_key.pem" });
    check(&node, tls(files.path(), absent), Ok(()));
    let wrong = json!({ "tls_server_name_identification": "127.0.0.1" });
    check(&node, tls(files.path(), wrong), Err(&["certificate", "tls_server_name_identification"]));
}
