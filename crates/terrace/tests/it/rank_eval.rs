//! `terrace rank eval`: metrics by their definition, what the cache does, and what is refused.

use std::fmt::Write;
use std::fs;

use serde_json::Value;
use terrace_testkit::TinyRanker;

use crate::evaluated_users::{EvaluatedUsers, changed, terrace, text};

/// The AUC of each task of what `terrace rank score` gives, pair by pair.
fn wanted(users: &EvaluatedUsers, model: &TinyRanker) -> String {
    let asked = users.wanted_requests();
    assert_eq!(asked.len(), 3, "three of ten users do not train");
    let file = users.path().join("requests.jsonl");
    let lines: Vec<String> = asked.iter().map(|(request, _)| request.to_string()).collect();
    fs::write(&file, lines.join("\n")).expect("writable");
    let model = model.path();
    let scored =
        terrace(&["rank", "score", text(&file), "--model", text(&model), "--threads", "1"])
            .expect("it scores");
    let mut samples: Vec<(Vec<f64>, i64)> = Vec::new();
    for (line, (_, labels)) in scored.lines().zip(&asked) {
        let line: Value = serde_json::from_str(line).expect("JSON");
        for (score, label) in line["scores"].as_array().expect("scores").iter().zip(labels) {
            let logits = score["logits"].as_array().expect("logits").iter();
            samples.push((logits.map(|it| it.as_f64().expect("a number")).collect(), *label));
        }
    }
    let mut metrics = "[eval]:\n".to_owned();
    for task in 0..TinyRanker::TASKS {
        let of = |wanted: i64| samples.iter().filter(move |it| it.1 >> task & 1 == wanted);
        let pairs = of(1).flat_map(|positive| of(0).map(move |negative| (positive, negative)));
        let order: Vec<f64> = pairs
            .map(|(positive, negative)| match positive.0[task].total_cmp(&negative.0[task]) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            })
            .collect();
        let auc = order.iter().sum::<f64>() / order.len() as f64;
        writeln!(metrics, "    Metrics.task{task}.AUC:{auc:.6}").expect("text");
    }
    metrics
}

fn json(report: Result<String, String>) -> Value {
    serde_json::from_str(&report.expect("a report")).expect("JSON")
}

#[test]
fn areas_are_those_of_the_scores_cached_or_not() {
    let model = TinyRanker::new(5);
    let users = EvaluatedUsers::new(&model, 17);
    let want = wanted(&users, &model);
    for options in [
        &["--mode", "eval"][..],
        &["--disable_kvcache"],
        &["--max_bs", "1"],
        &["--max-bs", "3", "--mode=eval"],
    ] {
        assert_eq!(users.eval(options).expect("it evaluates"), want, "{options:?}");
    }
    assert_eq!(users.eval_of(&model.path(), &[]).expect("our own folder"), want);
    let gin = users.checkpoint().join("config.gin");
    fs::copy(users.gin(), gin).expect("the checkpoint's own gin file");
    let (checkpoint, data) = (users.checkpoint(), users.path().join("processed_seqs.csv"));
    let alone =
        ["rank", "eval", "--checkpoint_dir", text(&checkpoint), "--dataset-path", text(&data)];
    assert_eq!(terrace(&alone).expect("it evaluates"), want);

    let cached = json(users.eval(&["--json"]));
    assert_eq!([&cached["users"], &cached["samples"], &cached["unknown_ids"]], [3, 12, 1]);
    assert_eq!(cached["tokens"]["device"], cached["tokens"]["history"]);
    let anew = json(users.eval(&["--json", "--disable_kvcache"]));
    assert_eq!(anew["tokens"]["computed"], cached["tokens"]["history"]);
    assert_eq!(anew["metrics"], cached["metrics"]);
}

#[test]
fn without_context_sequences_begin_with_items() {
    let model = TinyRanker::new(6);
    let users = EvaluatedUsers::new(&model, 18);
    let with = json(users.eval(&["--json"]));
    let without = json(users.eval(&["--json", "--disable_context"]));
    let tokens = |report: &Value| report["tokens"]["history"].as_u64().expect("a count");
    assert_eq!(tokens(&with), tokens(&without) + 3 * 2, "two features of three users");
    assert_ne!(with["metrics"], without["metrics"]);
    let anew = json(users.eval(&["--json", "--disable_context", "--disable_kvcache"]));
    assert_eq!(anew["metrics"], without["metrics"]);
}

#[test]
fn traffic_is_replayed_from_the_cache() {
    let model = TinyRanker::new(7);
    let users = EvaluatedUsers::new(&model, 19);
    let cached = json(users.eval(&["--mode", "simulate", "--json", "--max_bs", "3"]));
    let anew = json(users.eval(&["--mode", "simulate", "--json", "--disable_kvcache"]));
    assert_eq!(cached["metrics"], anew["metrics"]);
    let [all, last] = users.wanted_tokens();
    let count = |report: &Value, key: &str| report["tokens"][key].as_u64().expect("a count");
    for (report, computed) in [(&cached, last), (&anew, all)] {
        assert_eq!(report["dates"], 2);
        assert_eq!(count(report, "history"), all as u64);
        assert_eq!(count(report, "computed"), computed as u64, "each token once with the cache");
        assert_eq!(count(report, "device"), (all - computed) as u64);
        assert!(0.0 < report["latency_ms"]["p99"].as_f64().expect("a time"));
    }
    let printed = users.eval(&["--mode", "simulate"]).expect("a report");
    for part in
        ["[simulate]:\n", "found on the device: ", "    saved: ", "latency: p50 ", "[eval]:\n"]
    {
        assert!(printed.contains(part), "{part:?} is in {printed}");
    }
}

#[test]
fn histories_come_back_from_host_memory() {
    let model = TinyRanker::new(8);
    let users = EvaluatedUsers::new(&model, 20);
    // The device has room for the longest history that the model takes, and no more.
    let options = ["--mode", "simulate", "--json", "--kv-bytes", "1"];
    let cached = json(users.eval(&[&options[..], &["--kv-tier", "host=16MiB"]].concat()));
    assert!(0 < cached["tokens"]["host"].as_u64().expect("a count"), "{cached}");
    assert_eq!(cached["metrics"], json(users.eval(&options))["metrics"]);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let model = TinyRanker::new(9);
    let users = EvaluatedUsers::new(&model, 21);
    let refused = |result: Result<String, String>, parts: &[&str]| {
        let error = result.expect_err("it does not fit");
        parts.iter().for_each(|part| assert!(error.contains(part), "{part:?} is in {error}"));
    };
    let gin = fs::read_to_string(users.gin()).expect("a gin file");
    let with_gin = |text: String| fs::write(users.gin(), text).expect("writable");

    with_gin(format!("{gin}NetworkArgs.num_layer = 2\nTrainArgs.seed = 1\n"));
    refused(users.eval(&[]), &["NetworkArgs.num_layer", "num_layers", "TrainArgs.seed"]);
    assert!(users.eval(&["--skip_unknown_keys"]).is_ok());
    with_gin(changed(&gin, "'city'", "'town'"));
    refused(users.eval_of(&model.path(), &[]), &["features are", "town", "city"]);
    with_gin(changed(&gin, "max_num_candidates = 4", "max_num_candidates = 40"));
    refused(users.eval(&[]), &["nobody to evaluate", "0 users have more than 40 items, 12 have"]);
    with_gin(gin);

    let (gin, checkpoint) = (users.gin(), users.checkpoint());
    let (gin, checkpoint) = (text(&gin), text(&checkpoint));
    let alone = ["rank", "eval", "--checkpoint_dir", checkpoint, "--gin_config_file", gin];
    refused(terrace(&alone), &["names no data set", "--dataset_path"]);
    let elsewhere = [&alone[..], &["--dataset_path", checkpoint]].concat();
    refused(terrace(&elsewhere), &["processed_seqs.csv is not there", "terrace preprocess"]);
    refused(terrace(&alone[..4]), &["names no data set"]);
    refused(terrace(&[&alone[..], &["--max_bs", "0"]].concat()), &["--max-bs", "1"]);

    let folder = "dynamicemb_module/model._embedding_collection.\
                  _model_parallel_embedding_collection";
    let values = users.checkpoint().join(folder).join("item_emb_values.rank_0.world_size_1");
    let bytes = fs::read(&values).expect("rows of items");
    fs::write(&values, &bytes[..bytes.len() - 3]).expect("writable");
    refused(users.eval(&[]), &["cannot open the checkpoint", "item_emb_values", "60 rows"]);
    fs::remove_dir_all(users.checkpoint().join("torch_module")).expect("removed");
    refused(users.eval(&[]), &["cannot open the checkpoint"]);
}
