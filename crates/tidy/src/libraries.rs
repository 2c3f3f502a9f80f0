//! Which crates may know which libraries: other systems stay behind the crates that speak to them.

use crate::finding::Finding;
use crate::manifest::{crate_of, dependencies};
use crate::tree::Tree;

struct Libraries {
    /// The system that they speak to.
    system: &'static str,
    packages: &'static [&'static str],
    known_to: &'static [&'static str],
}

const TABLE: [Libraries; 5] = [
    Libraries {
        system: "HTTP and gRPC",
        packages: &[
            "axum",
            "hyper",
            "hyper-util",
            "http",
            "http-body-util",
            "tower",
            "tower-http",
            "ureq",
            "hf-hub",
            "tonic",
            "prost",
        ],
        known_to: &["server", "terrace", "fuzz-targets"],
    },
    // `terrace` has a plain client, to measure the others beside it.
    Libraries {
        system: "Redis",
        packages: &["redis", "fred", "deadpool-redis", "bb8-redis"],
        known_to: &["tiers", "embedding", "terrace"],
    },
    // `testkit` has a broker, for tests of those above `embedding`.
    Libraries {
        system: "Kafka",
        packages: &["rdkafka", "rskafka", "kafka"],
        known_to: &["embedding", "testkit"],
    },
    // A small crate of its own below `embedding`.
    Libraries {
        system: "RocksDB",
        packages: &["rocksdb", "rust-rocksdb", "librocksdb-sys"],
        known_to: &["rocksdb"],
    },
    // `reqwest` is named for its TLS only; `object_store` calls it.
    Libraries {
        system: "object stores",
        packages: &["object_store", "reqwest", "opendal", "aws-config", "aws-sdk-s3", "rust-s3"],
        known_to: &["embedding", "terrace"],
    },
];

/// No crate depends on a library of the table that it may not know.
pub fn libraries_in_their_crates(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.manifests {
        for (line, package) in dependencies(text) {
            let found = TABLE.iter().find(|row| row.packages.contains(&package.as_str()));
            let Some(Libraries { system, known_to, .. }) = found else { continue };
            let name = crate_of(path);
            if !known_to.contains(&name) {
                let known_to = known_to.join(", ");
                let message = format!(
                    "{package} in {name}: {system} may be known to {known_to} only; move the code \
                     there"
                );
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}
