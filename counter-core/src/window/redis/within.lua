-- Adds to a window counter if the new count is within a limit.
--
-- - KEYS: scratch (see apply.lua), counter
-- - ARGV: amount, expiry, start (inclusive) and end (exclusive) of the time range in which the counter is
--   open, limit
--
-- Returns {1, count, now} if the amount was added, {0, count, now} if not, and {2, 0, now} if the counter is
-- not open at `now`, the server time.

local now = tonumber(redis.call('TIME')[1])
if now < tonumber(ARGV[3]) or now >= tonumber(ARGV[4]) then
  return {2, 0, now}
end
local before = redis.call('GET', KEYS[2])
local count = tonumber(before or '0')
if not count then
  return redis.error_reply('ERR value is not an integer or out of range')
end
if count + tonumber(ARGV[1]) > tonumber(ARGV[5]) then
  return {0, count, now}
end
if before then
  return {1, redis.call('INCRBY', KEYS[2], ARGV[1]), now}
end
redis.call('SET', KEYS[2], ARGV[1], 'EXAT', ARGV[2])
return {1, tonumber(ARGV[1]), now}
