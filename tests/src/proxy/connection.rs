use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{self, AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time;

use super::faults::Faults;
use super::frames::Frames;

/// How long the requests before a dropped one may take to be answered.
const GRACE: Duration = Duration::from_secs(1);

/// Carries one connection, to its end or to the fault that ends it.
pub(super) async fn carry(mut client: TcpStream, upstream: SocketAddr, faults: Arc<Faults>) {
    // In this order, so that a connection made during a fault never reaches the server.
    let in_black_hole = tokio::select! {
        biased;
        () = faults.until(|conduct| conduct.refuse) => false,
        () = faults.until(|conduct| conduct.black_hole) => true,
        () = pass(&mut client, upstream, &faults) => false,
    };
    if in_black_hole {
        let mut nowhere = io::sink();
        tokio::select! {
            () = faults.until(|conduct| conduct.refuse || !conduct.black_hole) => {}
            _ = io::copy(&mut client, &mut nowhere) => {}
        }
    }
}

/// Passes frames both ways until either side is gone or something was lost.
async fn pass(client: &mut TcpStream, upstream: SocketAddr, faults: &Faults) {
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        return;
    };
    for stream in [&*client, &server] {
        if stream.set_nodelay(true).is_err() {
            return;
        }
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
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

/// Why no more requests are passed on.
#[derive(PartialEq, Eq)]
enum Ended {
    Gone,
    Dropped,
}

/// Passes requests on, and says of each to `asked`, before the server can answer it, whether it
/// calls a script.
async fn pass_requests(
    client: impl AsyncRead + Unpin,
    mut server: impl AsyncWrite + Unpin,
    asked: mpsc::UnboundedSender<bool>,
    faults: &Faults,
) -> Ended {
    let mut requests = Frames::new(client);
    while let Some(request) = requests.next().await {
        let is_script_call = request.is_script_call();
        if is_script_call && faults.to_drop.spend() {
            return Ended::Dropped;
        }
        if asked.send(is_script_call).is_err() || server.write_all(&request.bytes).await.is_err() {
            return Ended::Gone;
        }
    }
    Ended::Gone
}

/// Passes replies on until the server is gone, or one is swallowed, or there are no more requests
/// and all have been answered.
async fn pass_replies(
    server: impl AsyncRead + Unpin,
    mut client: impl AsyncWrite + Unpin,
    mut unanswered: mpsc::UnboundedReceiver<bool>,
    faults: &Faults,
) {
    let mut replies = Frames::new(server);
    // Whether the request that is to be answered next calls a script.
    let mut awaited = None;
    loop {
        let reply = tokio::select! {
            // In this order: a reply is read after the request that it answers.
            biased;
            asked = unanswered.recv(), if awaited.is_none() => {
                let Some(is_script_call) = asked else { return };
                awaited = Some(is_script_call);
                continue;
            }
            reply = replies.next() => reply,
        };
        let Some(reply) = reply else { return };
        let is_of_script = !reply.is_push() && awaited.take() == Some(true);
        if is_of_script && !reply.is_unknown_script() && faults.to_swallow.spend() {
            return;
        }
        let delay = faults.delay();
        if !delay.is_zero() {
            time::sleep_until(reply.received + delay).await;
        }
        if client.write_all(&reply.bytes).await.is_err() {
            return;
        }
    }
}
