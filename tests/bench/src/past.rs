//! Fills a Redis store with history, to look like it would after long use.

use counter_core::{Precisions, Timestamp};
use tests::RedisServer;

/// Writes counters. ARGV: prefix, now, samples, precisions separated by commas, counter names.
const WRITE_SCRIPT: &str = "
local at = tonumber(ARGV[2])
for n = 5, #ARGV do
  for precision in string.gmatch(ARGV[4], '%d+') do
    local width, samples = tonumber(precision), tonumber(ARGV[3])
    local last = at - at % width
    local fields = {}
    for back = samples - 1, 0, -1 do
      fields[#fields + 1] = string.format('%.0f', last - back * width)
      -- The newest sample has ten hits per second.
      fields[#fields + 1] = tostring(back > 0 and 1 + back * 7919 % 5000 or 1 + 10 * (at - last))
    end
    local member = precision .. ':' .. ARGV[n]
    redis.call('HSET', ARGV[1] .. 'count:' .. member, unpack(fields))
    redis.call('ZADD', ARGV[1] .. 'known:', 0, member)
    redis.call('ZADD', ARGV[1] .. 'due', string.format('%.0f', last - (samples - 1) * width + 120 * width), member)
  end
  redis.call('HSET', ARGV[1] .. 'total', ARGV[n], 1000000)
end";

/// Returns the default precisions, separated by commas.
#[must_use]
pub fn default_precisions() -> String {
    Precisions::default()
        .iter()
        .map(|retention| retention.precision.to_string())
        .collect::<Vec<_>>()
        .join(",")
}

/// Writes the latest samples of these counters to keys with a prefix.
pub fn write(
    server: &RedisServer,
    prefix: &str,
    names: &[String],
    precisions: &str,
    samples: u64,
    now: Timestamp,
) {
    for names in names.chunks(20) {
        let mut words: Vec<String> =
            ["EVAL", WRITE_SCRIPT, "0", prefix, &now.to_string(), &samples.to_string(), precisions]
                .map(str::to_owned)
                .into();
        words.extend_from_slice(names);
        let reply = server.command(&words);
        assert_eq!(reply, tests::Value::Nil, "the samples are written");
    }
}

/// Returns `count` counter names.
#[must_use]
pub fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("/articles/{n}")).collect()
}
