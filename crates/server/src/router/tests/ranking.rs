//! Scores, rankings and what is known of a tokenizer, with a tiny model behind them.

use super::generating::Service;
use super::*;

fn service() -> Service {
    Service::start(ServerConfig::default())
}

fn cosine(a: &Value, b: &Value) -> f64 {
    let numbers = |list: &Value| -> Vec<f64> {
        list.as_array().expect("numbers").iter().map(|x| x.as_f64().expect("a number")).collect()
    };
    numbers(a).iter().zip(numbers(b)).map(|(a, b)| a * b).sum()
}

#[tokio::test]
async fn scores_are_the_cosines_of_embeddings() {
    let service = service();
    let texts = ["hello", "world", "hello there"];
    let embedded = service.post("/v1/embeddings", json!({"input": texts})).await;
    let embedding = |index: usize| &embedded["data"][index]["embedding"];
    let scored = service.post("/v1/score", json!({"text_1": "hello", "text_2": texts})).await;
    assert_eq!((&scored["object"], &scored["model"]), (&json!("list"), &json!("tiny")));
    assert_eq!(scored["usage"], json!({"prompt_tokens": 26, "total_tokens": 26}));
    let data = scored["data"].as_array().expect("scores");
    assert_eq!(data.len(), 3);
    for (index, score) in data.iter().enumerate() {
        assert_eq!((&score["index"], &score["object"]), (&json!(index), &json!("score")));
        let difference =
            score["score"].as_f64().expect("a score") - cosine(embedding(0), embedding(index));
        assert!(difference.abs() < 1e-5, "{score}");
    }
    // As many as the others: each with its own.
    let pairs = json!({"text_1": ["hello", "world"], "text_2": ["world", "hello"]});
    let paired = service.post("/score", pairs).await;
    assert_eq!(paired["data"][0]["score"], paired["data"][1]["score"]);
    assert_eq!(paired["data"].as_array().expect("scores").len(), 2);
    let error = service.refused("/v1/score", json!({"text_1": ["a", "b"], "text_2": "c"})).await;
    assert_eq!(error["param"], "text_1");
    let many = vec!["a"; 1025];
    let error = service.refused("/v1/score", json!({"text_1": many, "text_2": many})).await;
    assert_eq!(error["message"], "there are 2050 texts, the limit is 2048");
}

#[tokio::test]
async fn documents_are_ranked_by_their_scores() {
    let service = service();
    let documents = ["world", "hello", "a bank"];
    let scored = service.post("/v1/score", json!({"text_1": "hello", "text_2": documents})).await;
    let body = json!({"query": "hello", "documents": [{"text": "world"}, "hello", "a bank"]});
    let ranked = service.post("/v1/rerank", body).await;
    let results = ranked["results"].as_array().expect("results");
    assert_eq!((results.len(), &results[0]["index"]), (3, &json!(1)));
    let scores = results.iter().map(|result| result["relevance_score"].as_f64().expect("a score"));
    assert!(scores.rev().is_sorted(), "{results:?}");
    for result in results {
        let index = result["index"].as_u64().expect("an index") as usize;
        assert_eq!(result["document"], json!({"text": documents[index]}));
        assert_eq!(result["relevance_score"], scored["data"][index]["score"]);
    }
    for path in ["/rerank", "/v2/rerank"] {
        let body = json!({"query": "hello", "documents": documents, "top_n": 1,
            "return_documents": false});
        let best = service.post(path, body).await;
        let score = &results[0]["relevance_score"];
        assert_eq!(best["results"], json!([{"index": 1, "relevance_score": score}]), "{path}");
    }
    let empty = json!({"query": "", "documents": ["a"]});
    assert_eq!(service.refused("/v1/rerank", empty).await["param"], "query");
    let overlong = json!({"query": "a", "documents": ["a".repeat(1000)]});
    assert_eq!(service.refused("/v1/rerank", overlong).await["param"], "documents");
}

#[tokio::test]
async fn the_tokenizer_is_described() {
    let service = service();
    let info = service.get("/tokenizer_info").await;
    assert_eq!((&info["model_max_length"], &info["vocab_size"]), (&json!(512), &json!(320)));
    assert_eq!(info["tokenizer_class"], "BPE");
    let eos = info["eos_token_ids"][0].as_u64().expect("an id").to_string();
    let special = &info["added_tokens_decoder"][&eos];
    assert_eq!(*special, json!({"content": info["eos_token"], "special": true}));
    let chat = service.post("/tokenize", json!({"prompt": info["eos_token"]})).await;
    assert!(chat["tokens"].as_array().expect("ids").contains(&info["eos_token_ids"][0]));
    assert_eq!(service.get("/tokenizer_info?model=tiny").await, info);
    let unknown = service.send(get_request("/tokenizer_info?model=a%2Fb")).await;
    assert_eq!(unknown.status(), 404);
    assert_eq!(error_of(unknown).await["message"], "no model \"a/b\" here; known: tiny");
    assert_eq!(service.send(get_request("/tokenizer_info?name=tiny")).await.status(), 400);
}
