//! Import benchmark: elapsed time, CPU time and memory to import access logs, compared with `wc -l` and
//! GoAccess.
//!
//! The first argument is the program that imports. The second argument sets the number of lines (a million by
//! default); a log four times as long is also imported. Logs are in the combined format, with 2,000 routes,
//! 50,000 addresses, 500 user agents and 3 % bots, and cover a day. Another log covers three years, and is imported
//! without and with an archive.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bench::server::Figures;
use bench::table;
use tests::RedisServer;

/// Interval for polling a program's statistics.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The kernel's clock rate for CPU times.
const TICKS_PER_SECOND: f64 = 100.0;

/// Days of the log for the archive.
const YEARS: u64 = 3 * 365;

/// The cost of running a program.
#[derive(Clone, Copy, Debug)]
struct Cost {
    wall: Duration,
    processor: f64,
    /// Peak memory in MB.
    memory: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let program = PathBuf::from(arguments.next().ok_or("usage: import PROGRAM [LINES]")?);
    let lines = match arguments.next() {
        Some(lines) => lines.to_str().ok_or("a number of lines")?.parse()?,
        None => 1_000_000,
    };
    let folder = std::env::temp_dir().join(format!("import-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let measured = measure_all(&program, &folder, lines);
    fs::remove_dir_all(&folder)?;
    measured
}

fn measure_all(program: &Path, folder: &Path, lines: u64) -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for lines in [lines, 4 * lines] {
        let log = folder.join("access.log");
        write_log(&log, lines, 1)?;
        let import = |store: &str, log: &Path| {
            let mut command = Command::new(program);
            command.args(["import", "--route", "/articles/{id}", "--store", store]).arg(log);
            command
        };
        let mut wc = Command::new("wc");
        wc.arg("-l").arg(&log);
        // Warm up the page cache, so that any program will find the file in memory.
        measure(&mut wc)?;
        rows.push(("`wc -l`".to_owned(), lines, measure(&mut wc)?));
        rows.push(("import to the tally".to_owned(), lines, measure(&mut import("memory:", &log))?));
        let server = RedisServer::start();
        let before = Figures::of(&server);
        let to_redis = measure(&mut import(&server.url(), &log))?;
        let after = Figures::of(&server).since(&before);
        let calls = after.commands.get("evalsha").map_or(0, |calls| calls.count);
        let label =
            format!("import to Redis: {calls} calls, {:.2} s Redis CPU time", after.processor.as_secs_f64());
        rows.push((label, lines, to_redis));
        let mut gzip = Command::new("gzip");
        if gzip.arg("--keep").arg("-1").arg(&log).status()?.success() {
            let compressed = log.with_extension("log.gz");
            rows.push(("import of gzip".to_owned(), lines, measure(&mut import("memory:", &compressed))?));
            fs::remove_file(compressed)?;
        }
        if rows.len() > 4 {
            // GoAccess is slow on the long log, so we only compare the short log.
            break;
        }
        let mut goaccess = Command::new("goaccess");
        goaccess.arg(&log).args(["--log-format=COMBINED", "--no-global-config", "--no-progress", "-o"]);
        goaccess.arg(folder.join("report.json"));
        match measure(&mut goaccess) {
            Ok(cost) => rows.push(("GoAccess".to_owned(), lines, cost)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("without GoAccess: apt-get install goaccess");
            }
            Err(error) => return Err(error.into()),
        }
    }
    let log = folder.join("years.log");
    write_log(&log, lines, YEARS)?;
    let database = |name: &str| format!("sqlite:{}", folder.join(name).display());
    let server = RedisServer::start();
    for (name, store) in [("SQLite", &database("near.db")), ("Redis", &server.url())] {
        for is_archived in [false, true] {
            let mut import = Command::new(program);
            import.args(["import", "--route", "/articles/{id}", "--store", store]).arg(&log);
            let mut label = format!("three years to {name}");
            if is_archived {
                import.arg("--archive").arg(database("far.db"));
                label += " with an archive in SQLite";
            }
            rows.push((label, lines, measure(&mut import)?));
            // The next import counts the same log in empty stores.
            server.command(&["FLUSHALL"]);
            for file in fs::read_dir(folder)? {
                let file = file?.path();
                if file.to_string_lossy().contains(".db") {
                    fs::remove_file(file)?;
                }
            }
        }
    }
    let columns = ["program", "lines", "s", "CPU s", "lines per CPU second", "peak MB"];
    let row = |(name, lines, cost): (String, u64, Cost)| {
        let a_second = lines as f64 / cost.processor.max(1.0 / TICKS_PER_SECOND);
        vec![
            name,
            lines.to_string(),
            format!("{:.2}", cost.wall.as_secs_f64()),
            format!("{:.2}", cost.processor),
            format!("{a_second:.0}"),
            format!("{:.1}", cost.memory),
        ]
    };
    table::print(&columns, &rows.into_iter().map(row).collect::<Vec<_>>());
    Ok(())
}

/// Runs a program until it exits.
fn measure(command: &mut Command) -> io::Result<Cost> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let (mut memory, process) = (0.0, PathBuf::from(format!("/proc/{}", child.id())));
    let (wall, processor) = loop {
        let stat = fs::read_to_string(process.join("stat"))?;
        // Fields after the name, which may contain spaces. The state is at index 0, the times at 11 and 12.
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // The process has exited, but the statistics are available until we wait for it.
        if fields[0] == "Z" {
            let ticks = |field: usize| fields[field].parse::<f64>().map_err(io::Error::other);
            break (started.elapsed(), (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND);
        }
        let status = fs::read_to_string(process.join("status"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        memory = peak.and_then(|peak| peak.parse().ok()).unwrap_or(memory);
        sleep(POLL_INTERVAL);
    };
    succeed(&mut child)?;
    Ok(Cost { wall, processor, memory: memory / 1024.0 })
}

fn succeed(child: &mut Child) -> io::Result<()> {
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the program failed: {status}"))) }
}

/// Writes a log that ends with yesterday. It is always the same, except for times.
fn write_log(path: &Path, lines: u64, days: u64) -> io::Result<()> {
    const DAY: u64 = 86_400;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_secs();
    let today = now / DAY * DAY;
    let (mut day, mut date) = (0, String::new());
    let mut log = BufWriter::new(File::create(path)?);
    let mut seed = 7_u64;
    for line in 0..lines {
        let mut random = |below: u64| {
            // SplitMix64.
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = seed;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % below
        };
        let second = today - days * DAY + line * days * DAY / lines;
        if day != second / DAY {
            day = second / DAY;
            let output =
                Command::new("date").args(["-u", "-d", &format!("@{second}"), "+%d/%b/%Y"]).output()?;
            date = String::from_utf8(output.stdout).map_err(io::Error::other)?.trim().to_owned();
        }
        let second = second % DAY;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let address = random(50_000);
        // The minimum of two numbers, so that a few routes get most requests.
        let route = random(2000).min(random(2000));
        let path = format!("/articles/{route}");
        let status = [200, 200, 200, 200, 200, 200, 200, 304, 301, 404][random(10) as usize];
        let (size, referer) = (random(50_000), random(3));
        let referer = ["-", "https://www.example.org/", "https://search.example/?q=a"][referer as usize];
        let (is_bot, agent) = (random(100) < 3, random(500));
        let (version, build) = (100 + agent % 40, agent / 3);
        let agent = match (is_bot, agent % 3) {
            (true, _) => {
                "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)".to_owned()
            }
            (_, 0) => format!(
                "Mozilla/5.0 (X11; Linux x86_64; rv:{version}.{build}) Gecko/20100101 Firefox/{version}.0"
            ),
            (_, 1) => format!(
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{version}.0.{build}.0 Safari/537.36"
            ),
            _ => format!(
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_{build} like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1"
            ),
        };
        writeln!(
            log,
            "192.{}.{}.{} - - [{date}:{hour:02}:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.1\" {status} {size} \"{referer}\" \"{agent}\"",
            address / 62_500,
            address / 250 % 250,
            address % 250 + 1,
        )?;
    }
    log.flush()
}
