//! Instructions per response with different middlewares: for the whole server process, by callgrind, not
//! including the kernel. Computed from two runs with different numbers of requests over a single connection.
//!
//! `serve KIND REDIS` is the server to be run by callgrind, which exits when `/stop` is requested.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use bench::site::{self, IDENTITY, KINDS};
use bench::{callgrind, load, table};
use tests::RedisServer;
use tokio::net::TcpListener;

const REQUEST_COUNTS: [u32; 2] = [500, 4_500];

/// Allocator functions of the C library. How long the allocator searches depends on the heap layout, which
/// can differ by more than a hundred instructions per response.
const ALLOCATOR: [&str; 4] = ["malloc", "calloc", "realloc", "free"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [] => measure(&KINDS),
        ["serve", kind, redis] => serve(kind, redis),
        kinds => measure(&kinds.iter().copied().chain([IDENTITY]).collect::<Vec<_>>()),
    }
}

fn measure(kinds: &[&str]) -> Result<(), Box<dyn Error>> {
    let redis = RedisServer::start();
    let folder = folder()?;
    let mut measured = Vec::new();
    for kind in kinds {
        let few = instructions(kind, &redis.url(), REQUEST_COUNTS[0], &folder.join("profile"))?;
        let many = instructions(kind, &redis.url(), REQUEST_COUNTS[1], &folder.join("profile"))?;
        let per_request = |many: u64, few: u64| {
            (many as f64 - few as f64) / f64::from(REQUEST_COUNTS[1] - REQUEST_COUNTS[0])
        };
        measured.push((*kind, per_request(many.0, few.0), per_request(many.1, few.1)));
    }
    std::fs::remove_dir_all(&folder)?;
    let identity =
        measured.iter().find(|(kind, ..)| *kind == IDENTITY).copied().unwrap_or((IDENTITY, 0.0, 0.0));
    let row = |(kind, all, allocator): &(&str, f64, f64)| {
        let more = [all - identity.1, allocator - identity.2].map(|more| format!("{more:+.0}"));
        [(*kind).to_owned(), format!("{all:.0}")].into_iter().chain(more).collect()
    };
    table::print(
        &[
            "middleware",
            "instructions per response",
            "difference to an identity layer",
            "difference in the allocator",
        ],
        &measured.iter().map(row).collect::<Vec<_>>(),
    );
    Ok(())
}

fn folder() -> std::io::Result<std::path::PathBuf> {
    let folder = std::env::temp_dir().join(format!("instructions-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    Ok(folder)
}

/// Returns the instructions to handle `count` requests: in total, and in the allocator.
fn instructions(kind: &str, redis: &str, count: u32, profile: &Path) -> Result<(u64, u64), Box<dyn Error>> {
    let mut server = callgrind::start(&std::env::current_exe()?, &["serve", kind, redis], profile)?;
    let mut address = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut address)?;
    let mut stream = TcpStream::connect(address.trim())?;
    stream.set_nodelay(true)?;
    let request = load::request(0);
    for _ in 0..count {
        stream.write_all(&request)?;
        read_response(&mut stream)?;
    }
    stream.write_all(b"GET /stop HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    read_response(&mut stream)?;
    drop(stream);
    let status = server.wait()?;
    if !status.success() {
        return Err(format!("the server for {kind} failed: {status}").into());
    }
    let functions = callgrind::by_function(profile)?;
    let allocator = ALLOCATOR.iter().filter_map(|name| functions.get(*name)).sum();
    Ok((callgrind::instructions(profile)?, allocator))
}

fn read_response(stream: &mut TcpStream) -> Result<(), Box<dyn Error>> {
    let (mut bytes, mut read) = ([0; 1024], 0);
    while load::response_length(&bytes[..read]) != Some(read) {
        match stream.read(&mut bytes[read..])? {
            0 => return Err("the server closed the connection".into()),
            more => read += more,
        }
    }
    Ok(())
}

fn serve(kind: &str, redis: &str) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        site::serve(kind, listener, redis).await
    })
}
