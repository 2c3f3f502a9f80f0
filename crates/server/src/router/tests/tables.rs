//! Look-ups, hints and what is known of tables, with a parameter server behind them.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use terrace_device::Device;
use terrace_embedding::{
    LoadError, ModelPath, ParameterServer, PlaceBudgets, PsConfig, SetOptions, SparseFolder,
    StartOptions, Surroundings,
};

use super::*;
use crate::tables::{ServedSet, TableService};

pub const DIM: usize = 4;
const KEYS: i64 = 100;
pub const DEFAULT: f32 = -0.5;

/// Tables `c.cached` (with a hot cache), `m.plain`, `m.both` and `n.both`.
pub struct Tables {
    pub app: Router,
    service: TableService,
    first: Option<ServedSet>,
    config: Value,
    files: TempDir,
}

/// A row says its key.
pub fn row(key: i64) -> [f32; DIM] {
    std::array::from_fn(|index| key as f32 + index as f32 / 8.0)
}

fn write_files(folder: &Path) {
    write_rows(folder, row);
}

fn write_rows(folder: &Path, row: impl Fn(i64) -> [f32; DIM]) {
    std::fs::create_dir_all(folder).expect("a folder");
    let keys: Vec<u8> = (0..KEYS).flat_map(i64::to_le_bytes).collect();
    let rows: Vec<u8> = (0..KEYS).flat_map(row).flat_map(f32::to_le_bytes).collect();
    for (name, bytes) in [("key", keys), ("emb_vector", rows)] {
        std::fs::write(folder.join(name), bytes).expect("a file");
    }
}

fn model(files: &Path, name: &str, tables: &[&str], is_cached: bool) -> Value {
    let folders: Vec<_> =
        tables.iter().map(|table| files.join(format!("{name}_{table}"))).collect();
    folders.iter().for_each(|folder| write_files(folder));
    json!({
        "model": name,
        "sparse_files": folders,
        "embedding_table_names": tables,
        "default_value_for_each_table": vec![DEFAULT; tables.len()],
        "deployed_device_list": [0],
        "hit_rate_threshold": 1.1,
        "gpucache": is_cached,
        "gpucacheper": 0.5,
        "init_ec": false,
    })
}

fn parse(config: &Value) -> PsConfig {
    let around = Surroundings { folder: None, model_name: None, cores: 2 };
    PsConfig::from_value(config, &around).expect("a configuration").0
}

fn open(path: &ModelPath, dim: Option<usize>) -> Result<SparseFolder, LoadError> {
    match path {
        ModelPath::Local(path) => SparseFolder::open(path, dim),
        ModelPath::ObjectStore(url) => panic!("no object store here: {url}"),
    }
}

fn one_table(files: &Path) -> Vec<Value> {
    vec![model(files, "m", &["t"], true)]
}

impl Tables {
    pub fn start() -> Self {
        Self::with(ServerConfig::default())
    }

    pub fn with(server_config: ServerConfig) -> Self {
        Self::configured(server_config, json!({"supportlonglong": true}), &|files| {
            vec![
                model(files, "c", &["cached"], true),
                model(files, "m", &["plain", "both"], false),
                model(files, "n", &["both"], false),
            ]
        })
    }

    /// `config` is what is not the same in all tests.
    fn of(config: Value, models: &dyn Fn(&Path) -> Vec<Value>) -> Self {
        Self::configured(ServerConfig::default(), config, models)
    }

    fn configured(
        server_config: ServerConfig,
        mut config: Value,
        models: &dyn Fn(&Path) -> Vec<Value>,
    ) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        config["volatile_db"] = json!({"type": "parallel_hash_map"});
        config["persistent_db"] = json!({"type": "embedded", "path": files.path().join("rows")});
        config["models"] = json!(models(files.path()));
        let parsed = parse(&config);
        let options = StartOptions {
            devices: vec![Device::Cpu],
            host_name: "host".to_owned(),
            library_folders: Vec::new(),
            redis_time: Duration::from_millis(500),
            read_time: Duration::from_secs(5),
            threads: 2,
            budgets: PlaceBudgets { device: 0, ram: 0 },
            open: &open,
            progress: &mut |_, _| (),
            say: &mut |_| (),
        };
        let first = Arc::new(ParameterServer::start(&parsed, options).expect("a server"));
        let service = TableService::default();
        let first = Some(service.serve(first));
        let (_canceller, cancel) = cancel_signal();
        let services = Services { tables: service.clone(), ..Services::default() };
        let state = AppState::new(server_config, services, cancel);
        state.services.add_tensor_models(&state.memory, &state.metrics);
        Self { app: router(Arc::new(state)), service, first, config, files }
    }

    /// Serves other models, too.
    fn load(&self, models: Value) -> ServedSet {
        let mut config = self.config.clone();
        config["models"] = models;
        let (progress, say) = (&mut |_: &str, _| (), &mut |_| ());
        let options = SetOptions { open: &open, progress, say };
        let databases = self.first.as_ref().expect("it is served").set().databases();
        let set = ParameterServer::start_beside(databases, &parse(&config), options);
        self.service.serve(Arc::new(set.expect("a set")))
    }

    /// What a table has for key 3.
    async fn row_of(&self, table: &str) -> Value {
        let path = format!("/v1/tables/{table}/lookup");
        self.post(&path, 200, json!({"keys": [3]})).await["rows"][0].clone()
    }

    async fn names(&self) -> Vec<String> {
        let list: Value = serde_json::from_str(&self.get("/v1/tables").await).expect("JSON");
        let names = list["data"].as_array().expect("tables").iter();
        names.map(|it| it["names"][0].as_str().expect("a name").to_owned()).collect()
    }

    pub async fn send(&self, request: Request<Body>) -> Response {
        self.app.clone().oneshot(request).await.expect("a router cannot fail")
    }

    async fn post(&self, path: &str, status: u16, body: Value) -> Value {
        let response = self.send(json_request(path, body.to_string())).await;
        let (found, text) = (response.status().as_u16(), text_of(response).await);
        assert_eq!(found, status, "{path} {body}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    pub async fn get(&self, path: &str) -> String {
        let response = self.send(get_request(path)).await;
        assert_eq!(response.status(), 200);
        text_of(response).await
    }

    /// The complaint: its status, its field and a part of its message.
    async fn check_refused(&self, path: &str, body: Value, want: (u16, &str, &str)) {
        let (status, param, part) = want;
        let error = &self.post(path, status, body.clone()).await["error"];
        assert_eq!(error["param"], param, "{path} {body}: {error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(part), "{path} {body}: {message}");
    }
}

#[tokio::test]
async fn rows_come_in_the_order_of_the_keys() {
    let tables = Tables::start();
    let path = "/v1/tables/m.plain/lookup";
    let reply = tables.post(path, 200, json!({"keys": [7, 3, 7, 1000, -1]})).await;
    let missing = [DEFAULT; DIM];
    assert_eq!(reply["rows"], json!([row(7), row(3), row(7), missing, missing]));
    assert_eq!((&reply["table"], &reply["dim"]), (&json!("m.plain"), &json!(DIM)));
    let lookup = json!({"keys": 5, "unique_keys": 4, "cache_hits": 0, "default_rows": 2,
        "deferred_rows": 0, "unanswered_rows": 0});
    assert_eq!(reply["lookup"], lookup);
    let empty = tables.post(path, 200, json!({"keys": []})).await;
    assert_eq!(empty["rows"], json!([]));
    let body = json!({"keys": [1, 2], "encoding_format": "base64"});
    let encoded = tables.post(path, 200, body).await;
    let bytes = base64::Engine::decode(
        &base64::prelude::BASE64_STANDARD,
        encoded["rows"].as_str().expect("a text"),
    );
    let want: Vec<u8> = [row(1), row(2)].concat().into_iter().flat_map(f32::to_le_bytes).collect();
    assert_eq!(bytes.expect("base64"), want);
}

#[tokio::test]
async fn a_table_is_named_with_or_without_its_model() {
    let tables = Tables::start();
    for (path, model, want) in [
        ("m.both", None, "m.both"),
        ("n.both", Some("n"), "n.both"),
        ("both", Some("n"), "n.both"),
        ("plain", None, "m.plain"),
    ] {
        let body = json!({"keys": [1], "model": model});
        let reply = tables.post(&format!("/v1/tables/{path}/lookup"), 200, body).await;
        assert_eq!(reply["table"], want);
    }
}

#[tokio::test]
async fn wrong_requests_are_refused_with_the_numbers() {
    let tables = Tables::start();
    let plain = "/v1/tables/m.plain/lookup";
    let many = vec![1; 65_537];
    for (path, body, want) in [
        (plain, json!({}), (400, "keys", "keys is missing")),
        (plain, json!({"keys": 1}), (400, "keys", "must be a list")),
        (plain, json!({"keys": ["1"]}), (400, "keys", "whole numbers")),
        (plain, json!({"keys": [1.5]}), (400, "keys", "whole numbers")),
        (plain, json!({"keys": [null]}), (400, "keys", "whole numbers")),
        (plain, json!({"keys": [[1]]}), (400, "keys", "whole numbers")),
        (plain, json!({"keys": [u64::MAX]}), (400, "keys", "9223372036854775807")),
        (plain, json!({"keys": many}), (400, "keys", "65537 items, the limit is 65536")),
        (plain, json!({"keys": [1], "model": 3}), (400, "model", "a string")),
        (plain, json!({"keys": [1], "model": "n"}), (400, "model", "names a table of \"m\"")),
        (plain, json!({"keys": [1], "dim": 3}), (400, "dim", "unknown field")),
        (
            plain,
            json!({"keys": [1], "encoding_format": "hex"}),
            (400, "encoding_format", "\"hex\""),
        ),
        ("/v1/tables/both/lookup", json!({"keys": [1]}), (400, "table", "m.both, n.both")),
        ("/v1/tables/none/lookup", json!({"keys": [1]}), (404, "table", "m.both, m.plain")),
        ("/v1/tables/a.b.c/lookup", json!({"keys": [1]}), (404, "table", "\"a.b.c\"")),
        ("/v1/tables/%2e/prefetch", json!({"keys": [1]}), (404, "table", "known: ")),
        ("/v1/tables/%ff/lookup", json!({"keys": [1]}), (400, "table", "not UTF-8")),
        ("/v1/tables/plain/prefetch", json!({"keys": [1]}), (409, "table", "no hot cache")),
    ] {
        tables.check_refused(path, body, want).await;
    }
    let narrow = Tables::of(json!({"supportlonglong": false}), &one_table);
    for path in ["/v1/tables/t/lookup", "/v1/tables/t/prefetch"] {
        for key in [-1_i64, 1 << 32] {
            let want = format!("key {key} does not fit into a u32");
            narrow.check_refused(path, json!({"keys": [1, key]}), (400, "keys", &want)).await;
        }
    }
    narrow.post("/v1/tables/t/lookup", 200, json!({"keys": [u32::MAX]})).await;
}

#[tokio::test]
async fn a_hint_fills_the_hot_cache() {
    let tables = Tables::start();
    let hint = json!({"keys": [1, 2, 2]});
    let hinted = tables.post("/v1/tables/cached/prefetch", 202, hint).await;
    assert_eq!((&hinted["table"], &hinted["unique_keys"]), (&json!("c.cached"), &json!(2)));
    assert_eq!(hinted["queued_rows"], 2);
    for _ in 0..1_000 {
        let keys = json!({"keys": [1, 2]});
        let reply = tables.post("/v1/tables/cached/lookup", 200, keys).await;
        assert_eq!(reply["rows"], json!([row(1), row(2)]));
        if reply["lookup"]["cache_hits"] == 2 {
            return;
        }
    }
    panic!("rows do not come into the hot cache");
}

#[tokio::test]
async fn tables_are_listed_and_counted() {
    let tables = Tables::start();
    for _ in 0..2 {
        let body = json!({"keys": [1, 1, 1000]});
        tables.post("/v1/tables/cached/lookup", 200, body).await;
    }
    let list: Value = serde_json::from_str(&tables.get("/v1/tables").await).expect("JSON");
    let listed = list["data"].as_array().expect("tables").iter();
    let names: Vec<_> = listed.map(|it| &it["names"]).collect();
    let want = [["c.cached"], ["m.plain"], ["m.both"], ["n.both"]].map(|names| json!(names));
    assert_eq!(names, want.iter().collect::<Vec<_>>());
    let cached = &list["data"][0];
    assert_eq!((&cached["dim"], &cached["key_type"]), (&json!(DIM), &json!("int64")));
    let cache = &cached["hot_caches"][0];
    assert_eq!((&cache["device"], &cache["holds"]), (&json!("cpu"), &json!("recent")));
    assert_eq!(cached["hit_rate"], 0.25);
    let levels = cached["levels"].as_array().expect("levels");
    assert_eq!((&levels[0]["level"], &levels[1]["level"]), (&json!("ram"), &json!("embedded")));
    assert_eq!((&levels[0]["rows"], &levels[0]["suspended"]), (&json!(KEYS), &json!(false)));
    assert_eq!(list["consumers"], json!([]));

    let metrics = tables.get("/metrics").await;
    for line in [
        r#"terrace_table_lookups_total{model="c",table="cached"} 2"#,
        r#"terrace_table_keys_total{model="c",table="cached"} 6"#,
        r#"terrace_table_unique_keys_total{model="c",table="cached"} 4"#,
        r#"terrace_table_cache_hits_total{model="c",table="cached"} 1"#,
        r#"terrace_table_default_rows_total{model="c",table="cached"} 2"#,
        r#"terrace_table_unanswered_rows_total{model="m",table="both"} 0"#,
        r#"terrace_table_level_hits_total{level="ram",model="c",table="cached"} 1"#,
        r#"terrace_table_level_misses_total{level="embedded",model="c",table="cached"} 2"#,
        r#"terrace_table_level_suspended{level="ram",model="c",table="cached"} 0"#,
        r#"terrace_table_level_open_breakers{level="embedded",model="c",table="cached"} 0"#,
        r#"terrace_table_level_rows{level="ram",model="m",table="plain"} 100"#,
        r#"terrace_table_level_errors_total{kind="io",level="ram",model="c",table="cached"} 0"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} not in\n{metrics}");
    }
    assert_eq!(tables.get("/engine_check").await, r#"{"status":"Running"}"#);
}

#[tokio::test]
async fn tables_come_and_go_and_the_newest_answers() {
    let mut tables = Tables::of(json!({"supportlonglong": true}), &one_table);
    let other = tables.load(json!([model(tables.files.path(), "n", &["t"], false)]));
    assert_eq!(tables.names().await, ["m.t", "n.t"]);
    tables
        .check_refused("/v1/tables/t/lookup", json!({"keys": [1]}), (400, "table", "m.t, n.t"))
        .await;
    drop(other);
    assert_eq!(tables.row_of("t").await, json!(row(3)));
    tables
        .check_refused("/v1/tables/n.t/lookup", json!({"keys": [1]}), (404, "table", "m.t"))
        .await;

    // A new version of a model, of which the name is from then on.
    let folder = tables.files.path().join("newer");
    write_rows(&folder, |key| row(key + 1));
    let mut newer = model(tables.files.path(), "m", &["t"], true);
    newer["sparse_files"] = json!([folder]);
    let newer = tables.load(json!([newer]));
    assert_eq!(tables.names().await, ["m.t", "m.t"], "both are served");
    assert_eq!(tables.row_of("m.t").await, json!(row(4)));
    assert_eq!(tables.row_of("t").await, json!(row(4)));
    let slots = r#"terrace_table_cache_slots{model="m",table="t"} "#;
    let slots_of = |metrics: String| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(slots)).map(str::to_owned);
        line.and_then(|line| line.parse::<f64>().ok()).expect("a number")
    };
    let both = slots_of(tables.get("/metrics").await);
    tables.first = None;
    assert_eq!(slots_of(tables.get("/metrics").await), both / 2.0);
    assert_eq!(tables.names().await, ["m.t"]);
    drop(newer);
    assert_eq!(tables.get("/v1/tables").await, r#"{"object":"list","data":[],"consumers":[]}"#);
}

#[tokio::test]
async fn tables_are_served_and_it_shows_while_no_broker_answers() {
    // Nobody listens on the first port.
    let source = json!({"type": "kafka_message_queue", "brokers": "127.0.0.1:1"});
    let config = json!({"supportlonglong": true, "update_source": source});
    let tables = Tables::of(config, &one_table);
    let reply = tables.post("/v1/tables/t/lookup", 200, json!({"keys": [3]})).await;
    assert_eq!(reply["rows"], json!([row(3)]));
    let list: Value = serde_json::from_str(&tables.get("/v1/tables").await).expect("JSON");
    let consumer = &list["consumers"][0];
    assert_eq!((&consumer["scope"], &consumer["connected"]), (&json!("own"), &json!(false)));
    let metrics = tables.get("/metrics").await;
    for line in [
        r#"terrace_update_connected{scope="own"} 0"#,
        r#"terrace_update_running{scope="own"} 1"#,
        r#"terrace_update_rows_total{scope="own"} 0"#,
        r#"terrace_update_dropped_messages_total{reason="magic",scope="own"} 0"#,
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} not in\n{metrics}");
    }
    assert_eq!(tables.get("/engine_check").await, r#"{"status":"Running"}"#);
}

#[tokio::test]
async fn without_tables_there_are_none() {
    let response = send(ServerConfig::default(), get_request("/v1/tables")).await;
    assert_eq!(text_of(response).await, r#"{"object":"list","data":[],"consumers":[]}"#);
    let request = json_request("/v1/tables/a.b/lookup", r#"{"keys": [1]}"#);
    let response = send(ServerConfig::default(), request).await;
    assert_eq!(response.status(), 404);
    let message = "there is no table \"a.b\" here; known: none; start the server with --ps FILE";
    assert_eq!(error_of(response).await["message"], message);
}
