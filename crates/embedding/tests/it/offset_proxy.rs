//! Stands between a client and a broker, and answers which offset was sent at a time: the broker
//! of these tests says for every time that there is none.
//!
//! It also shortens how long a member of a group may be silent: this broker makes whoever comes
//! back to a group wait for almost as long.
//!
//! Only what is needed for that is understood: frames, who answers which question, the addresses in
//! answers, version 1 of the question for offsets, and the beginning of joining a group.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdkafka::types::RDKafkaApiKey;

use crate::kafka_broker::KafkaBroker;

const LIST_OFFSETS: i16 = 2;
const METADATA: i16 = 3;
const FIND_COORDINATOR: i16 = 10;
const JOIN_GROUP: i16 = 11;
/// The last version of it whose fields are not packed.
const JOIN_VERSION: i16 = 5;
/// Well above the time between two heartbeats of a server.
const SILENT_MS_MOST: i32 = 6_000;

/// By topic and partition, the times of its messages.
type Times = HashMap<(String, i32), Vec<i64>>;

pub struct OffsetProxy {
    shared: Arc<Shared>,
}

struct Shared {
    times: Mutex<Times>,
    /// How often a start by time was asked for.
    questions: Mutex<usize>,
    broker_port: u16,
    port: u16,
    is_down: AtomicBool,
    clients: Mutex<Vec<TcpStream>>,
}

/// What a client has asked and was not answered yet: by number, the question and its bytes.
type Asked = Arc<Mutex<HashMap<[u8; 4], (i16, Vec<u8>)>>>;

impl OffsetProxy {
    pub fn start(broker: &KafkaBroker) -> Self {
        let version = Some(1);
        let limited = broker.cluster.apiversion(RDKafkaApiKey::ListOffsets, version, version);
        limited.expect("a version that the broker has");
        let joins =
            broker.cluster.apiversion(RDKafkaApiKey::JoinGroup, Some(0), Some(JOIN_VERSION));
        joins.expect("versions that the broker has");
        let address = broker.cluster.bootstrap_servers();
        let broker_port = address.rsplit_once(':').expect("a port").1.parse().expect("a number");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (times, questions) = (Mutex::default(), Mutex::default());
        let (is_down, clients) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { times, questions, broker_port, port, is_down, clients });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accepting.accept(listener));
        OffsetProxy { shared }
    }

    /// Ends all connections; while it is down nobody can connect.
    pub fn set_down(&self, is_down: bool) {
        self.shared.is_down.store(is_down, Ordering::SeqCst);
        for client in self.shared.clients.lock().expect("clients").drain(..) {
            // It may have left.
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.shared.port)
    }

    /// Of a partition's next message.
    pub fn add_time(&self, topic: &str, partition: i32, time: i64) {
        let mut times = self.shared.times.lock().expect("times");
        times.entry((topic.into(), partition)).or_default().push(time);
    }

    pub fn questions(&self) -> usize {
        *self.shared.questions.lock().expect("a count")
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, first: TcpListener) {
        let mut listener = first;
        loop {
            listener.set_nonblocking(true).expect("a socket");
            while !self.is_down.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok((client, _)) => {
                        client.set_nonblocking(false).expect("a socket");
                        self.serve(client);
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
            drop(listener);
            while self.is_down.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            listener = TcpListener::bind(("127.0.0.1", self.port)).expect("the same port");
        }
    }

    fn serve(self: &Arc<Self>, client: TcpStream) {
        let Ok(broker) = TcpStream::connect(("127.0.0.1", self.broker_port)) else { return };
        self.clients.lock().expect("clients").extend(client.try_clone());
        let asked = Asked::default();
        let questions = (client.try_clone(), broker.try_clone(), Arc::clone(&asked));
        if let (Ok(client), Ok(broker), asked) = questions {
            std::thread::spawn(move || {
                pump(client, broker, |frame| {
                    let api = i16::from_be_bytes([frame[0], frame[1]]);
                    if api == JOIN_GROUP {
                        shorten_silence(frame);
                    }
                    let number = frame[4..8].try_into().expect("four bytes");
                    asked.lock().expect("questions").insert(number, (api, frame.to_vec()));
                });
            });
        }
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            pump(broker, client, |frame| {
                let number: [u8; 4] = frame[..4].try_into().expect("four bytes");
                match asked.lock().expect("questions").remove(&number) {
                    Some((METADATA | FIND_COORDINATOR, _)) => shared.move_addresses(frame),
                    Some((LIST_OFFSETS, question)) => shared.answer(&question, frame),
                    _ => {}
                }
            });
        });
    }

    /// Whoever is sent to the broker comes here.
    fn move_addresses(&self, frame: &mut [u8]) {
        let host = b"127.0.0.1";
        let old = [host.as_slice(), &i32::from(self.broker_port).to_be_bytes()].concat();
        let new = [host.as_slice(), &i32::from(self.port).to_be_bytes()].concat();
        for at in 0..frame.len().saturating_sub(old.len() - 1) {
            if frame[at..at + old.len()] == old {
                frame[at..at + old.len()].copy_from_slice(&new);
            }
        }
    }

    /// Puts offsets into an answer where a time was asked for.
    fn answer(&self, question: &[u8], frame: &mut [u8]) {
        let asked = asked_times(question);
        if asked.values().any(|time| *time >= 0) {
            *self.questions.lock().expect("a count") += 1;
        }
        let times = self.times.lock().expect("times");
        let mut at = 4;
        for _ in 0..take_i32(frame, &mut at) {
            let topic = take_text(frame, &mut at);
            for _ in 0..take_i32(frame, &mut at) {
                let key = (topic.clone(), take_i32(frame, &mut at));
                // An error and a time that nobody reads, then the offset.
                at += 2 + 8;
                let time = asked[&key];
                let sent = times.get(&key).map_or(&[][..], Vec::as_slice);
                if let Some(offset) = sent.iter().position(|sent| *sent >= time)
                    && time >= 0
                {
                    frame[at..at + 8].copy_from_slice(&(offset as i64).to_be_bytes());
                }
                at += 8;
            }
        }
    }
}

/// Of a member that joins.
fn shorten_silence(frame: &mut [u8]) {
    let mut at = 8;
    // The client and its group come before.
    take_text(frame, &mut at);
    take_text(frame, &mut at);
    let silent_ms = take_i32(frame, &mut at).min(SILENT_MS_MOST);
    frame[at - 4..at].copy_from_slice(&silent_ms.to_be_bytes());
}

/// The times that a question is about.
fn asked_times(question: &[u8]) -> HashMap<(String, i32), i64> {
    let mut at = 8;
    take_text(question, &mut at);
    at += 4;
    let mut asked = HashMap::new();
    for _ in 0..take_i32(question, &mut at) {
        let topic = take_text(question, &mut at);
        for _ in 0..take_i32(question, &mut at) {
            let partition = take_i32(question, &mut at);
            let time = i64::from_be_bytes(question[at..at + 8].try_into().expect("eight bytes"));
            at += 8;
            asked.insert((topic.clone(), partition), time);
        }
    }
    asked
}

fn take_i32(bytes: &[u8], at: &mut usize) -> i32 {
    *at += 4;
    i32::from_be_bytes(bytes[*at - 4..*at].try_into().expect("four bytes"))
}

fn take_text(bytes: &[u8], at: &mut usize) -> String {
    let length = i16::from_be_bytes(bytes[*at..*at + 2].try_into().expect("two bytes")) as usize;
    *at += 2 + length;
    String::from_utf8(bytes[*at - length..*at].to_vec()).expect("text")
}

/// Passes frames on, each seen and changed by `see`, until one side ends.
fn pump(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&mut [u8])) {
    let mut length = [0; 4];
    while from.read_exact(&mut length).is_ok() {
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        if from.read_exact(&mut frame).is_err() {
            break;
        }
        see(&mut frame);
        if to.write_all(&[length.as_slice(), &frame].concat()).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
