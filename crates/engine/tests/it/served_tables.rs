//! Recommenders whose embedding rows a parameter server has.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use terrace_device::Device;
use terrace_embedding::{
    ModelPath, ParameterServer, PlaceBudgets, PsConfig, SparseFolder, StartOptions, Surroundings,
    UpdateScope,
};
use terrace_engine::DeviceChoice;
use terrace_engine::rank::{
    ModelChange, RankConfig, RankError, RankHandle, RankRequest, RankSetup, RankSource,
    RetrieveRequest, ServedFeatures,
};
use terrace_kernels::{Compute, unpack_row};
use terrace_model::hstu::{HstuFiles, TableTensors};
use terrace_testkit::{Rng, TinyRanker};

use crate::ranking::{config, engine, grow, item, rank, request, runtime};

const MODEL: &str = "tiny";

/// A server of a model's own tables, in memory.
struct Tables {
    server: Arc<ParameterServer>,
    folder: tempfile::TempDir,
}

impl Tables {
    fn of(model: &TinyRanker) -> Self {
        Self::with_gpucache(model, false)
    }

    /// With a hot cache that would give defaults for rows that it has not got.
    fn with_gpucache(model: &TinyRanker, gpucache: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let names = write_tables(&HstuFiles::open(&model.path()).expect("it opens"), folder.path());
        let server = start(folder.path(), &names, gpucache, &json!({}));
        Tables { server: Arc::new(server), folder }
    }

    fn engine(&self, model: &TinyRanker, config: RankConfig) -> RankHandle {
        let config = RankConfig { f32: true, device: DeviceChoice::Cpu, ..config };
        let files = HstuFiles::open(&model.path()).expect("the tiny model opens");
        let features = ServedFeatures::find(&self.server, MODEL, &files.config);
        let features = Arc::new(features.expect("its tables").expect("a model of its name"));
        let source = RankSource::Served { files: &files, features: &features };
        RankSetup { source, config }.start().expect("the tiny model starts")
    }

    fn update(&self, table: &str, keys: &[i64], rows: &[f32]) {
        let table = self.server.table(table).expect("a table");
        table.update(UpdateScope::Own, keys, rows).expect("it takes updates");
    }
}

/// Files of all tables, and their names.
fn write_tables(files: &HstuFiles, folder: &Path) -> Vec<String> {
    let tables = files.tables().expect("its own tables").into_iter().map(|table| {
        let (keys, numbers) = keys_and_rows(&table);
        let folder = folder.join(&table.name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let of_keys: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        let of_rows: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        std::fs::write(folder.join("key"), of_keys).expect("a file");
        std::fs::write(folder.join("emb_vector"), of_rows).expect("a file");
        table.name
    });
    tables.collect()
}

fn keys_and_rows(TableTensors { rows, keys, .. }: &TableTensors) -> (Vec<i64>, Vec<f32>) {
    let by_number = || (0..rows.rows() as i64).collect();
    let mut numbers = vec![0f32; rows.rows() * rows.columns()];
    for (row, out) in numbers.chunks_exact_mut(rows.columns()).enumerate() {
        unpack_row(rows.format(), rows.row(row), out);
    }
    (keys.clone().unwrap_or_else(by_number), numbers)
}

/// `fields` are those of the top, beside the model's.
fn start(folder: &Path, names: &[String], gpucache: bool, fields: &Value) -> ParameterServer {
    let files: Vec<_> = names.iter().map(|name| folder.join(name)).collect();
    let mut whole = json!({ "supportlonglong": true, "models": [{
        "model": MODEL, "sparse_files": files, "embedding_table_names": names,
        "deployed_device_list": [0], "gpucache": gpucache, "gpucacheper": 0.1,
        "hit_rate_threshold": 0.0,
    }]});
    let given = fields.as_object().expect("an object").clone();
    whole.as_object_mut().expect("an object").extend(given);
    let around = Surroundings { folder: None, model_name: None, cores: 2 };
    let (config, _) = PsConfig::from_value(&whole, &around).expect("a configuration");
    let open = |path: &ModelPath, dim: Option<usize>| match path {
        ModelPath::Local(path) => SparseFolder::open(path, dim),
        ModelPath::ObjectStore(url) => panic!("no object store here: {url}"),
    };
    let options = StartOptions {
        devices: vec![Device::Cpu],
        host_name: "host".to_owned(),
        library_folders: Vec::new(),
        redis_time: Duration::from_millis(500),
        read_time: Duration::from_secs(5),
        threads: 2,
        budgets: PlaceBudgets { device: 1 << 30, ram: 1 << 30 },
        open: &open,
        progress: &mut |_, _| (),
        say: &mut |_| (),
    };
    ParameterServer::start(&config, options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn rows_of_served_tables_rank_as_a_models_own() {
    let [narrow, _] = TinyRanker::with_mlps(21);
    let models = [(TinyRanker::new(21), false), (TinyRanker::stu(22), true), (narrow, true)];
    for (seed, (model, gpucache)) in models.into_iter().enumerate() {
        let tables = Tables::with_gpucache(&model, gpucache);
        let served = tables.engine(&model, config(60, 8));
        let own = engine(&model, Compute::F32, config(60, 8));
        let mut rng = Rng::new(seed as u64);
        let mut users: Vec<RankRequest> =
            (0..5).map(|user| request(&mut rng, &user.to_string(), 3, 7)).collect();
        for round in 0..60 {
            let asked = &mut users[rng.below(5)];
            match rng.below(8) {
                0 => asked.items[0] = item(&mut rng),
                1 => asked.context[0] = rng.below(5) as i64,
                _ => {}
            }
            let [got, want] = [&served, &own].map(|engine| rank(engine, asked).expect("ranks"));
            assert_eq!(got.logits, want.logits, "round {round}");
            assert_eq!(got.cached_tokens, want.cached_tokens, "round {round}");
            let events = rng.below(6);
            grow(&mut rng, asked, events);
        }
    }
}

#[test]
fn events_follow_what_is_cached() {
    let (model, mut rng) = (TinyRanker::new(5), Rng::new(5));
    let tables = Tables::of(&model);
    let served = tables.engine(&model, config(60, 8));
    let mut whole = request(&mut rng, "anna", 6, 4);
    rank(&served, &whole).expect("ranks");
    for _ in 0..4 {
        let mut events = RankRequest { candidates: Vec::new(), ..whole.clone() };
        (events.items, events.actions, events.context) = (vec![item(&mut rng)], vec![3], vec![]);
        whole.items.extend(&events.items);
        whole.actions.extend(&events.actions);
        let appended = runtime().block_on(async { served.append_events(events).await?.await });
        assert_eq!(appended.expect("appends").history_tokens, 2 + 2 * whole.items.len());
    }
    let [got, want] = [&served, &engine(&model, Compute::F32, config(60, 8))]
        .map(|engine| rank(engine, &whole).expect("ranks"));
    assert_eq!((got.logits, want.cached_tokens), (want.logits, 0));
    assert_eq!(got.cached_tokens, got.history_tokens);
}

#[test]
fn an_update_is_in_the_next_request_and_what_is_cached_stays() {
    let (model, other, mut rng) = (TinyRanker::new(7), TinyRanker::new(8), Rng::new(7));
    let tables = Tables::of(&model);
    let served = tables.engine(&model, config(60, 8));
    let asked = request(&mut rng, "anna", 9, 5);
    rank(&served, &asked).expect("ranks");
    // All rows become those of the other model, whose layers are these from now on, too.
    let files = HstuFiles::open(&other.path()).expect("it opens");
    for table in files.tables().expect("its own tables") {
        let (keys, numbers) = keys_and_rows(&table);
        tables.update(&table.name, &keys, &numbers);
    }
    let before = rank(&served, &asked).expect("ranks");
    assert_eq!(before.cached_tokens, before.history_tokens, "rows do not change what is cached");
    let reloaded = served.reload(&files).expect("it reloads");
    assert_eq!((reloaded.change, reloaded.generation), (ModelChange::Layers, 1));
    let again = served.reload(&files).expect("it reloads");
    assert_eq!((again.change, again.generation), (ModelChange::None, 1));
    let [got, want] = [&served, &engine(&other, Compute::F32, config(60, 8))]
        .map(|engine| rank(engine, &asked).expect("ranks"));
    assert_eq!((got.logits, got.cached_tokens), (want.logits, 0));
}

#[test]
fn a_model_that_retrieves_reads_its_tables_whole_at_the_start_and_at_each_reload() {
    let (model, mut rng) = (TinyRanker::retrieval(9), Rng::new(9));
    let tables = Tables::of(&model);
    let served = tables.engine(&model, config(60, 8));
    let own = engine(&model, Compute::F32, config(60, 8));
    let history = RankRequest { candidates: Vec::new(), ..request(&mut rng, "anna", 9, 0) };
    let (blocked, times) = (Vec::new(), Vec::new());
    let asked =
        RetrieveRequest { history, count: 5, blocked, keeps_seen: false, times, time: None };
    let find = |engine: &RankHandle| runtime().block_on(engine.retrieve(asked.clone()));
    let found = find(&served).expect("retrieves").items;
    assert_eq!(found, find(&own).expect("retrieves").items);
    let files = HstuFiles::open(&model.path()).expect("it opens");
    assert_eq!(served.reload(&files).expect("it reloads").change, ModelChange::None);
    // The best item becomes the worst.
    let best = found[0].item;
    let rows = files.tables().expect("its own tables").into_iter().find(|it| it.name == "item");
    let columns = rows.expect("items").rows.columns();
    tables.update("item", &[best], &vec![0.0; columns]);
    assert_eq!(find(&served).expect("retrieves").items[0].item, best, "until a reload");
    let reloaded = served.reload(&files).expect("it reloads");
    assert_eq!((reloaded.change, reloaded.generation), (ModelChange::Tables, 1));
    let after = find(&served).expect("retrieves");
    assert!(after.items.iter().all(|found| found.item != best || found.score == 0.0));
    assert!(0 < after.output.cached_tokens, "what is cached stays usable");
}

#[test]
fn what_is_evicted_meanwhile_is_computed_from_all_rows() {
    let (model, mut rng) = (TinyRanker::new(11), Rng::new(11));
    let tables = Tables::of(&model);
    let served = tables.engine(&model, config(60, 8));
    let asked: Vec<RankRequest> =
        (0..6).map(|user| request(&mut rng, &user.to_string(), 20, 3)).collect();
    let own = engine(&model, Compute::F32, config(60, 8));
    let want: Vec<_> = asked.iter().map(|it| rank(&own, it).expect("ranks").logits).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let runtime = runtime.expect("a runtime");
    let tasks = asked.iter().zip(&want).map(|(asked, want)| {
        let (served, asked, want) = (served.clone(), asked.clone(), want.clone());
        runtime.spawn(async move {
            for _ in 0..150 {
                assert_eq!(served.rank(asked.clone()).await.expect("ranks").logits, want);
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    while tasks.iter().any(|task| !task.is_finished()) {
        runtime.block_on(served.evict_all()).expect("evicts");
        std::thread::sleep(Duration::from_millis(1));
    }
    for task in tasks {
        runtime.block_on(task).expect("every answer is right");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let (model, mut rng) = (TinyRanker::new(13), Rng::new(13));
    let tables = Tables::of(&model);
    let files = HstuFiles::open(&model.path()).expect("it opens");
    let find = |server: &Arc<ParameterServer>, name: &str| {
        ServedFeatures::find(server, name, &files.config).map(|it| it.is_some())
    };
    assert!(!find(&tables.server, "another").expect("no model of that name"));
    let some = ["age", "city", "item"].map(str::to_owned);
    let some = Arc::new(start(tables.folder.path(), &some, false, &json!({})));
    assert_eq!(
        find(&some, MODEL).unwrap_err().to_string(),
        "the parameter server has not the tables that the recommender needs: model \"tiny\" has \
         no table \"action\" there, which its features need; it has age, city, item: list it with \
         the others, or give the model another name there"
    );
    let [narrow, _] = TinyRanker::with_mlps(13);
    let narrow = Tables::of(&narrow);
    assert_eq!(
        find(&narrow.server, MODEL).unwrap_err().to_string(),
        "the parameter server has not the tables that the recommender needs: rows of tiny.age \
         have 7 numbers, and the model takes 32"
    );
    let served = tables.engine(&model, config(60, 8));
    let mut asked = request(&mut rng, "anna", 3, 2);
    asked.items[1] = 5;
    let unknown = RankError::UnknownId { table: "item".to_owned(), id: 5 };
    assert_eq!(rank(&served, &asked).unwrap_err(), unknown);
    asked.strict = false;
    assert_eq!(rank(&served, &asked).expect("ranks").unknown_ids, 1);
    check_unanswered(&model, &tables, &asked);
    drop(tables);
    asked.items.push(6);
    asked.actions.push(1);
    assert_eq!(rank(&served, &asked).unwrap_err(), RankError::Stopped);
}

/// A row that cannot be asked for is never taken for the default.
fn check_unanswered(model: &TinyRanker, tables: &Tables, asked: &RankRequest) {
    let names = ["age", "city", "item", "action"].map(str::to_owned);
    // Nobody listens there.
    let redis = json!({ "volatile_db": { "type": "redis_cluster", "address": "127.0.0.1:1" } });
    let server = Arc::new(start(tables.folder.path(), &names, false, &redis));
    let unreachable = Tables { server, folder: tempfile::tempdir().expect("a folder") };
    let served = unreachable.engine(model, config(60, 8));
    let error = rank(&served, asked).expect_err("nobody answers");
    assert!(matches!(error, RankError::Unanswered { .. }), "{error}");
}
