-- Forgets a counter in a single step, so that its lifetime is always consistent with its samples.
--
-- - KEYS: scratch (see apply.lua), forgotten, total, known, due, then the keys of buckets
-- - ARGV: counter, seconds until the list of forgotten counters expires, then the members of known and due
--
-- The only write that may be rejected due to lack of memory is done before all deletions. If it fails,
-- nothing has changed.

redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
redis.call('EXPIREAT', KEYS[2], string.format('%.0f', redis.call('TIME')[1] + ARGV[2]))
local failed
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    failed = failed or reply
  end
end
for at = 6, #KEYS, 500 do
  try('DEL', unpack(KEYS, at, math.min(at + 499, #KEYS)))
end
try('HDEL', KEYS[3], ARGV[1])
for at = 3, #ARGV do
  try('ZREM', KEYS[4], ARGV[at])
  try('ZREM', KEYS[5], ARGV[at])
end
return failed or 'forgotten'
