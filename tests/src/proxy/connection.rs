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

/// Time to wait for replies to earlier requests when a request is dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// Receive buffer in bytes while we do not read from a client.
const PAUSED_RECEIVE_BUFFER: usize = 4 * 1024;

/// Receive buffer in bytes when we resume reading.
const RECEIVE_BUFFER: usize = 1024 * 1024;

/// Handles a connection, which can be closed by either side or by a fault.
pub(super) async fn carry(mut client: TcpStream, number: u64, faults: Arc<Faults>) {
    let ended = {
        let mut passing = pin!(pass(&mut client, &faults));
        // The order matters: a connection that is made during a fault must not reach the server.
        tokio::select! {
            biased;
            () = faults.until(|conduct| conduct.refuse) => Fault::None,
            () = faults.until(|conduct| conduct.frozen >= number) => {
                // Both ends stay open, but nothing is forwarded.
                faults.until(|conduct| conduct.refuse).await;
                Fault::None
            }
            () = faults.until(|conduct| conduct.black_hole) => Fault::BlackHole,
            () = faults.until(|conduct| conduct.desynchronized >= number) => Fault::Desynchronized,
            () = &mut passing => Fault::None,
        }
    };
    match ended {
        Fault::None => {}
        Fault::Desynchronized => reply_ok(&mut client).await,
        Fault::BlackHole => {
            let mut nowhere = io::sink();
            tokio::select! {
                () = faults.until(|conduct| conduct.refuse || !conduct.black_hole) => {}
                _ = io::copy(&mut client, &mut nowhere) => {}
            }
        }
    }
}

/// A fault that applies to a connection when forwarding has stopped.
enum Fault {
    None,
    BlackHole,
    Desynchronized,
}

/// Replies `OK` to everything until the client disconnects.
async fn reply_ok(client: &mut TcpStream) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(1..) = client.read(&mut bytes).await {
        if client.write_all(b"+OK\r\n").await.is_err() {
            return;
        }
    }
}

/// Forwards frames in both directions, and returns if either side disconnects or a frame is dropped.
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
            () = pass_responses(from_server, to_client, &is_lost, faults) => {}
        }
        return;
    }
    let (pending, unanswered) = mpsc::unbounded_channel();
    let requests = pass_requests(from_client, to_server, pending, faults);
    let mut replies = pin!(pass_replies(from_server, to_client, unanswered, faults));
    let ended = tokio::select! {
        ended = requests => ended,
        () = &mut replies => return,
    };
    if ended == Ended::Dropped {
        // Only the dropped request is lost. Earlier requests should still get a reply.
        drop(time::timeout(DROP_TIMEOUT, replies).await);
    }
}

/// Forwards statements, and returns if the client disconnects or a commit is dropped. Sets `is_lost` if the
/// response to a commit should be dropped. We rely on the client not pipelining a commit: it waits for all
/// earlier responses first.
async fn pass_statements(
    mut client: impl AsyncRead + Unpin,
    mut server: impl AsyncWrite + Unpin,
    is_lost: &AtomicBool,
    faults: &Faults,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = client.read(&mut bytes).await {
        faults.count_request();
        // This must not match READ COMMITTED.
        let is_word = |word: &[u8]| word.starts_with(b"COMMIT") && word.get(6) != Some(&b'T');
        let is_commit = (0..read).any(|start| is_word(&bytes[start..read]));
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

/// Forwards responses, and returns if the server disconnects or a response is dropped.
async fn pass_responses(
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
        faults.until_forwardable(time::Instant::now(), faults.round_trips()).await;
        if client.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

/// Reason why requests are not forwarded any more.
#[derive(PartialEq, Eq)]
enum Ended {
    Gone,
    Dropped,
}

/// Describes how to handle the reply to a request.
enum PendingReply {
    /// Not a call. The reply is forwarded.
    Other,
    /// Calls a script or executes a transaction.
    Call,
    /// A different command was sent to the server. These bytes replace the reply.
    Replaced(Vec<u8>),
    /// Nothing was sent to the server. These bytes are the reply.
    Canned(Vec<u8>),
}

/// Tracks the transaction state of a client.
#[derive(Default)]
struct Dialogue {
    in_transaction: bool,
}

impl Dialogue {
    /// Returns whether the request calls a script or executes a transaction. Queued commands are not calls.
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

/// Forwards requests. How to handle the reply is sent to `pending` first, i.e. before the server can reply, with the
/// round trip of the request.
async fn pass_requests(
    client: ReadHalf<'_>,
    mut server: impl AsyncWrite + Unpin,
    pending: mpsc::UnboundedSender<(PendingReply, u64)>,
    faults: &Faults,
) -> Ended {
    let mut requests = Frames::new(client);
    let mut dialogue = Dialogue::default();
    loop {
        let request = tokio::select! {
            biased;
            () = faults.until(|conduct| conduct.stop_reading) => {
                let socket = SockRef::from(requests.reader().as_ref());
                // This only affects how soon the client notices.
                drop(socket.set_recv_buffer_size(PAUSED_RECEIVE_BUFFER));
                faults.until(|conduct| !conduct.stop_reading).await;
                drop(socket.set_recv_buffer_size(RECEIVE_BUFFER));
                continue;
            }
            request = requests.next() => request,
        };
        let Some(request) = request else { return Ended::Gone };
        let trip = faults.count_request();
        let is_call = dialogue.is_call(&request);
        if is_call && faults.to_drop.spend() {
            return Ended::Dropped;
        }
        if is_call && !faults.to_pass.spend() && faults.to_hold.spend() {
            // While we wait, we do not check if the client has disconnected.
            faults.until(|conduct| !conduct.hold).await;
        }
        let answer = if dialogue.in_transaction { None } else { faults.answer(&request) };
        let (reply, bytes) = if let Some(answer) = answer {
            (PendingReply::Canned(answer), Vec::new())
        } else if !is_call {
            (PendingReply::Other, request.bytes)
        } else if !faults.to_reply.spend() {
            (PendingReply::Call, faults.rewritten(request))
        } else if request.is_any_of(&["EXEC"]) {
            // The server must leave the transaction.
            (PendingReply::Replaced(faults.canned_reply()), resp::encode(&["DISCARD"]))
        } else {
            (PendingReply::Canned(faults.canned_reply()), Vec::new())
        };
        if pending.send((reply, trip)).is_err() || server.write_all(&bytes).await.is_err() {
            return Ended::Gone;
        }
    }
}

/// Forwards replies. This returns if the server disconnects, if a reply is dropped, or if all requests have
/// been replied to and no more can arrive.
async fn pass_replies(
    server: impl AsyncRead + Unpin,
    mut client: impl AsyncWrite + Unpin,
    mut unanswered: mpsc::UnboundedReceiver<(PendingReply, u64)>,
    faults: &Faults,
) {
    let mut replies = Frames::new(server);
    // The request to which the next reply belongs.
    let mut awaited = None;
    loop {
        let (bytes, received, trip) = tokio::select! {
            // The order matters: we must know the request before we read the reply.
            biased;
            pending = unanswered.recv(), if awaited.is_none() => match pending {
                None => return,
                Some((PendingReply::Canned(bytes), trip)) => (bytes, time::Instant::now(), trip),
                Some(pending) => {
                    awaited = Some(pending);
                    continue;
                }
            },
            reply = replies.next() => {
                let Some(reply) = reply else { return };
                let request = if reply.is_push() { None } else { awaited.take() };
                match request {
                    Some((PendingReply::Call, _)) if !reply.is_not_run() && faults.to_swallow.spend() => return,
                    Some((PendingReply::Replaced(bytes), trip)) => (bytes, reply.received, trip),
                    Some((_, trip)) => (reply.bytes, reply.received, trip),
                    None => (reply.bytes, reply.received, 0),
                }
            }
        };
        faults.until_forwardable(received, trip).await;
        if client.write_all(&bytes).await.is_err() {
            return;
        }
        faults.space().await;
    }
}
