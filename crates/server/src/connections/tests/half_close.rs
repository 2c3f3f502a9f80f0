//! Clients that close their side after sending: those that wait, and those that have gone.

use std::fs;

use axum::http::header;
use axum::response::IntoResponse;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;

/// Longer than the time after which a client is probed.
const WHILE: Duration = Duration::from_millis(1500);

/// Serves responses that take a while: `/slow` whole, `/events` as a stream that begins at once;
/// and `/never` and `/silence`, whose responses do not come and do not go on. Says when one of the
/// latter two is dropped.
async fn serve() -> (SocketAddr, oneshot::Receiver<()>) {
    let (app, dropped) = slow_app();
    (serve_app(app, limits(LONG, LONG)).await, dropped)
}

fn slow_app() -> (Router, oneshot::Receiver<()>) {
    let (dropped, reported) = oneshot::channel();
    let guard = Arc::new(Mutex::new(Some(DropReport(Some(dropped)))));
    let events = |events| ([(header::CONTENT_TYPE, "text/event-stream")], events).into_response();
    let slow = || async {
        sleep(WHILE).await;
        "slow"
    };
    let two_events = move || async move {
        let chunks = stream::unfold(0, |count| async move {
            sleep(WHILE * count).await;
            (count < 2).then(|| (Ok::<_, Infallible>(format!("data: {count}\n\n")), count + 1))
        });
        events(Body::from_stream(chunks))
    };
    let held = Arc::clone(&guard);
    let never = || async move {
        let _guard = held.lock().expect("no panics").take();
        std::future::pending::<()>().await;
    };
    let silence = move || async move {
        let guard = guard.lock().expect("no panics").take();
        events(Body::from_stream(stream::once(async move {
            let _guard = guard;
            std::future::pending::<Result<Bytes, Infallible>>().await
        })))
    };
    let app = Router::new()
        .route("/slow", get(slow))
        .route("/events", get(two_events))
        .route("/never", get(never))
        .route("/silence", get(silence));
    (app, reported)
}

/// What comes to a client that closes its side after `requests`.
async fn responses_to(requests: &str) -> String {
    let (address, _) = serve().await;
    let stream = TcpStream::connect(address).await.expect("it listens");
    responses_over(stream, requests).await
}

async fn responses_over(mut stream: impl AsyncRead + AsyncWrite + Unpin, requests: &str) -> String {
    stream.write_all(requests.as_bytes()).await.expect("it is read");
    stream.shutdown().await.expect("it is open");
    let mut responses = String::new();
    stream.read_to_string(&mut responses).await.expect("the server closes");
    responses
}

const INTERIM: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// That the response of `/slow` came after an interim one.
#[track_caller]
fn check_slow(response: &str) {
    assert!(response.starts_with(INTERIM), "{response}");
    let last = response.trim_start_matches(INTERIM);
    assert!(last.starts_with("HTTP/1.1 200 OK\r\n") && last.ends_with("slow"), "{response}");
}

#[tokio::test]
async fn a_half_closed_client_gets_its_response() {
    check_slow(&responses_to("GET /slow HTTP/1.1\r\n\r\n").await);
}

#[tokio::test]
async fn a_half_closed_client_gets_its_response_over_tls() {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = [folder.path().join("certificate.pem"), folder.path().join("key.pem")];
    fs::write(&files[0], pair.cert.pem()).expect("it is writable");
    fs::write(&files[1], pair.signing_key.serialize_pem()).expect("it is writable");
    let tls = Tls::load(&files[0], &files[1]).expect("a pair");
    let address = serve_over(Some(tls), slow_app().0, limits(LONG, LONG)).await;

    let mut trusted = RootCertStore::empty();
    trusted.add(pair.cert.der().clone()).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("they are known")
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TcpStream::connect(address).await.expect("it listens");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS");
    check_slow(&responses_over(stream, "GET /slow HTTP/1.1\r\n\r\n").await);
}

#[tokio::test]
async fn a_half_closed_client_gets_the_responses_to_all_its_requests() {
    let one = "GET /slow HTTP/1.1\r\n\r\n";
    let responses = responses_to(&one.repeat(3)).await;
    let statuses: Vec<_> =
        responses.split("slow").map(|response| response.matches("HTTP/1.1 2")).collect();
    assert_eq!(statuses.len(), 4, "{responses}");
    for response in responses.split("slow").take(3) {
        assert!(response.starts_with(INTERIM), "{responses}");
    }
}

#[tokio::test]
async fn a_half_closed_client_gets_its_stream() {
    let response = responses_to("GET /events HTTP/1.1\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    let positions: Vec<_> = ["data: 0\n\n", ":\n\n", "data: 1\n\n", "\r\n0\r\n\r\n"]
        .iter()
        .map(|part| response.find(part).unwrap_or_else(|| panic!("{part:?} not in {response}")))
        .collect();
    assert!(positions.is_sorted(), "{response}");
}

#[tokio::test]
async fn an_old_client_is_sent_no_interim_response() {
    let response = responses_to("GET /slow HTTP/1.0\r\n\r\n").await;
    assert!(
        response.starts_with("HTTP/1.0 200 OK\r\n") && response.ends_with("slow"),
        "{response}"
    );
}

#[tokio::test]
async fn a_client_that_has_gone_is_noticed() {
    for path in ["/never", "/silence"] {
        let (address, dropped) = serve().await;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it is read");
        sleep(SHORT).await;
        // What has come is read, so that closing says no more than that nothing will be sent.
        let _ = stream.try_read(&mut [0; 1024]);
        drop(stream);
        dropped.await.expect("the response is dropped");
    }
}

#[tokio::test]
async fn a_request_sent_ahead_does_not_hide_that_a_client_has_gone() {
    let (address, dropped) = serve().await;
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let requests = b"GET /never HTTP/1.1\r\n\r\nGET /slow HTTP/1.1\r\n\r\n";
    stream.write_all(requests).await.expect("it is read");
    drop(stream);
    dropped.await.expect("the response is dropped");
}
