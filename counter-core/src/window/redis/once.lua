-- Adds 1 to a window counter, unless the token is already in this window.
--
-- - KEYS: scratch (see apply.lua), counter, tokens
-- - ARGV: token, expiry, start (inclusive) and end (exclusive) of the time range in which the counter is open
--
-- Returns {1, count} if the token was added, {0, count} if it was already counted, and {2, now} if the
-- counter is not open at the server time. If the server refuses a write, the token is removed again, so that
-- it can be counted later.

local now = tonumber(redis.call('TIME')[1])
if now < tonumber(ARGV[3]) or now >= tonumber(ARGV[4]) then
  return {2, now}
end
local before = redis.call('GET', KEYS[2])
local count = tonumber(before or '0')
if not count then
  return redis.error_reply('ERR value is not an integer or out of range')
end
if redis.call('SADD', KEYS[3], ARGV[1]) == 0 then
  return {0, count}
end
local function increment()
  if redis.call('SCARD', KEYS[3]) == 1 then
    redis.call('EXPIREAT', KEYS[3], ARGV[2])
  end
  if before then
    return redis.call('INCRBY', KEYS[2], 1)
  end
  redis.call('SET', KEYS[2], 1, 'EXAT', ARGV[2])
  return 1
end
local is_complete, reply = pcall(increment)
if not is_complete then
  redis.pcall('SREM', KEYS[3], ARGV[1])
  error(reply, 0)
end
return {1, reply}
