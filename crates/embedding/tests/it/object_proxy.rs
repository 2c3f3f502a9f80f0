//! Stands between a client and an object store that goes away and comes back: while it is closed,
//! every connection breaks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use terrace_testkit::ObjectServer;

pub struct ObjectProxy {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    server_port: u16,
    /// Bytes of answers until it closes.
    bytes_left: AtomicU64,
    connections: Mutex<Vec<TcpStream>>,
}

impl ObjectProxy {
    pub fn start(server: &ObjectServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            server_port: server.port,
            bytes_left: AtomicU64::new(u64::MAX),
            connections: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // What fails here, fails for the client.
                let _ = accepting.serve(client);
            }
        });
        ObjectProxy { shared, port }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// After so many bytes of answers.
    pub fn close_after(&self, bytes: u64) {
        self.shared.bytes_left.store(bytes, Ordering::SeqCst);
        if bytes == 0 {
            self.shared.break_all();
        }
    }

    pub fn open(&self) {
        self.shared.bytes_left.store(u64::MAX, Ordering::SeqCst);
    }

    pub fn is_closed(&self) -> bool {
        self.shared.bytes_left.load(Ordering::SeqCst) == 0
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, mut client: TcpStream) -> io::Result<()> {
        if self.bytes_left.load(Ordering::SeqCst) == 0 {
            return client.shutdown(Shutdown::Both);
        }
        let mut server = TcpStream::connect(("127.0.0.1", self.server_port))?;
        let kept = [client.try_clone()?, server.try_clone()?];
        self.connections.lock().expect("connections").extend(kept);
        let (mut asking, mut asked) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || {
            let _ = io::copy(&mut asking, &mut asked);
            let _ = asked.shutdown(Shutdown::Write);
        });
        let shared = Arc::clone(self);
        std::thread::spawn(move || {
            let mut piece = vec![0; 64 << 10];
            while let Ok(bytes @ 1..) = server.read(&mut piece) {
                let left = shared.bytes_left.load(Ordering::SeqCst);
                let passed = (bytes as u64).min(left);
                if client.write_all(&piece[..passed as usize]).is_err() {
                    break;
                }
                if left != u64::MAX {
                    shared.bytes_left.store(left - passed, Ordering::SeqCst);
                }
                if left == passed {
                    shared.break_all();
                    break;
                }
            }
            let _ = client.shutdown(Shutdown::Both);
        });
        Ok(())
    }

    fn break_all(&self) {
        for connection in self.connections.lock().expect("connections").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}
