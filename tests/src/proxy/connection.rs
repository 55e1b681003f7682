use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::mpsc;
use tokio::time;

use super::faults::{Faults, Protocol};
use super::frames::{Frame, Frames};
use crate::resp;

/// How long the requests before a dropped one may take to be answered.
const GRACE: Duration = Duration::from_secs(1);

/// What the kernel takes in, in bytes, of a client that is not read.
const UNREAD: usize = 4 * 1024;

/// What it takes in once the client is read again.
const READ: usize = 1024 * 1024;

/// Carries one connection, to its end or to the fault that ends it.
pub(super) async fn carry(mut client: TcpStream, number: u64, faults: Arc<Faults>) {
    let ended = {
        let mut passing = pin!(pass(&mut client, &faults));
        // In this order, so that a connection made during a fault never reaches the server.
        tokio::select! {
            biased;
            () = faults.until(|conduct| conduct.refuse) => Fault::None,
            () = faults.until(|conduct| conduct.forgotten >= number) => {
                // Both ends stay open, with nobody between them.
                faults.until(|conduct| conduct.refuse).await;
                Fault::None
            }
            () = faults.until(|conduct| conduct.black_hole) => Fault::BlackHole,
            () = faults.until(|conduct| conduct.desynchronized >= number) => Fault::Nonsense,
            () = &mut passing => Fault::None,
        }
    };
    match ended {
        Fault::None => {}
        Fault::Nonsense => answer_nonsense(&mut client).await,
        Fault::BlackHole => {
            let mut nowhere = io::sink();
            tokio::select! {
                () = faults.until(|conduct| conduct.refuse || !conduct.black_hole) => {}
                _ = io::copy(&mut client, &mut nowhere) => {}
            }
        }
    }
}

/// The fault that a connection keeps after the last frame was passed on.
enum Fault {
    None,
    BlackHole,
    Nonsense,
}

/// Answers whatever the client sends with `OK`, until the client is gone.
async fn answer_nonsense(client: &mut TcpStream) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(1..) = client.read(&mut bytes).await {
        if client.write_all(b"+OK\r\n").await.is_err() {
            return;
        }
    }
}

/// Passes frames both ways until either side is gone or something was lost.
async fn pass(client: &mut TcpStream, faults: &Faults) {
    let Ok(mut server) = TcpStream::connect(faults.upstream()).await else {
        return;
    };
    for stream in [&*client, &server] {
        if stream.set_nodelay(true).is_err() {
            return;
        }
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    if faults.protocol == Protocol::Sql {
        let is_lost = AtomicBool::new(false);
        tokio::select! {
            () = pass_statements(from_client, to_server, &is_lost, faults) => {}
            () = pass_answers(from_server, to_client, &is_lost, faults) => {}
        }
        return;
    }
    let (asked, unanswered) = mpsc::unbounded_channel();
    let requests = pass_requests(from_client, to_server, asked, faults);
    let mut replies = pin!(pass_replies(from_server, to_client, unanswered, faults));
    let ended = tokio::select! {
        ended = requests => ended,
        () = &mut replies => return,
    };
    if ended == Ended::Dropped {
        // Those who asked before get their answers: a dropped request loses itself alone.
        drop(time::timeout(GRACE, replies).await);
    }
}

/// Passes statements on until the client is gone or a commit was dropped; `is_lost` is set with a commit whose answer is
/// to be lost. A client sends it alone, when everything before it was answered.
async fn pass_statements(
    mut client: impl AsyncRead + Unpin,
    mut server: impl AsyncWrite + Unpin,
    is_lost: &AtomicBool,
    faults: &Faults,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = client.read(&mut bytes).await {
        faults.count_request();
        // And not `READ COMMITTED`.
        let is_word = |word: &[u8]| word.starts_with(b"COMMIT") && word.get(6) != Some(&b'T');
        let is_commit = (0..read).any(|place| is_word(&bytes[place..read]));
        if is_commit && faults.to_drop.spend() {
            return;
        }
        if is_commit && faults.to_swallow.spend() {
            is_lost.store(true, Ordering::SeqCst);
        }
        if server.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// Passes answers on until the server is gone or one was lost.
async fn pass_answers(
    mut server: impl AsyncRead + Unpin,
    mut client: impl AsyncWrite + Unpin,
    is_lost: &AtomicBool,
    faults: &Faults,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = server.read(&mut bytes).await {
        if is_lost.load(Ordering::SeqCst) {
            return;
        }
        faults.until_due(time::Instant::now()).await;
        faults.count_reply();
        if client.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// Why no more requests are passed on.
#[derive(PartialEq, Eq)]
enum Ended {
    Gone,
    Dropped,
}

/// A request, for the one who passes the reply on.
enum Asked {
    /// It is no call, and its reply passes.
    Other,
    /// It calls a script or executes a transaction.
    Call,
    /// The server is asked something else, and these bytes stand for its reply.
    Replaced(Vec<u8>),
    /// The server is not asked: these bytes are the reply.
    Answered(Vec<u8>),
}

/// What a client asks, request by request.
#[derive(Default)]
struct Dialogue {
    in_transaction: bool,
}

impl Dialogue {
    /// Whether the request calls a script or executes a transaction. What a transaction queues is
    /// neither.
    fn is_call(&mut self, request: &Frame) -> bool {
        let is_exec = request.is_any_of(&["EXEC"]);
        if is_exec || request.is_any_of(&["DISCARD"]) {
            self.in_transaction = false;
        } else if request.is_any_of(&["MULTI"]) {
            self.in_transaction = true;
        }
        is_exec || !self.in_transaction && request.is_any_of(&["EVAL", "EVALSHA"])
    }
}

/// Passes requests on, and says of each to `asked`, before the server can answer it, what becomes
/// of its reply.
async fn pass_requests(
    client: ReadHalf<'_>,
    mut server: impl AsyncWrite + Unpin,
    asked: mpsc::UnboundedSender<Asked>,
    faults: &Faults,
) -> Ended {
    let mut requests = Frames::new(client);
    let mut dialogue = Dialogue::default();
    loop {
        let request = tokio::select! {
            biased;
            () = faults.until(|conduct| conduct.stop_reading) => {
                let socket = SockRef::from(requests.reader().as_ref());
                // Only how soon the client notices depends on these.
                drop(socket.set_recv_buffer_size(UNREAD));
                faults.until(|conduct| !conduct.stop_reading).await;
                drop(socket.set_recv_buffer_size(READ));
                continue;
            }
            request = requests.next() => request,
        };
        let Some(request) = request else { return Ended::Gone };
        faults.count_request();
        let is_call = dialogue.is_call(&request);
        if is_call && faults.to_drop.spend() {
            return Ended::Dropped;
        }
        if is_call && !faults.to_pass.spend() && faults.to_hold.spend() {
            // Meanwhile nobody looks whether the client is still there.
            faults.until(|conduct| !conduct.hold).await;
        }
        let (becomes, bytes) = if !is_call {
            (Asked::Other, request.bytes)
        } else if !faults.to_answer.spend() {
            (Asked::Call, request.bytes)
        } else if request.is_any_of(&["EXEC"]) {
            // The server must not stay in the transaction.
            (Asked::Replaced(faults.answer()), resp::encode(&["DISCARD"]))
        } else {
            (Asked::Answered(faults.answer()), Vec::new())
        };
        if asked.send(becomes).is_err() || server.write_all(&bytes).await.is_err() {
            return Ended::Gone;
        }
    }
}

/// Passes replies on until the server is gone, or one is swallowed, or there are no more requests
/// and all have been answered.
async fn pass_replies(
    server: impl AsyncRead + Unpin,
    mut client: impl AsyncWrite + Unpin,
    mut unanswered: mpsc::UnboundedReceiver<Asked>,
    faults: &Faults,
) {
    let mut replies = Frames::new(server);
    // The request that is to be answered next.
    let mut awaited = None;
    loop {
        let (bytes, received) = tokio::select! {
            // In this order: a reply is read after the request that it answers.
            biased;
            asked = unanswered.recv(), if awaited.is_none() => match asked {
                None => return,
                Some(Asked::Answered(bytes)) => (bytes, time::Instant::now()),
                Some(asked) => {
                    awaited = Some(asked);
                    continue;
                }
            },
            reply = replies.next() => {
                let Some(reply) = reply else { return };
                let request = if reply.is_push() { None } else { awaited.take() };
                match request {
                    Some(Asked::Call) if !reply.is_not_run() && faults.to_swallow.spend() => return,
                    Some(Asked::Replaced(bytes)) => (bytes, reply.received),
                    _ => (reply.bytes, reply.received),
                }
            }
        };
        faults.until_due(received).await;
        faults.count_reply();
        if client.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
