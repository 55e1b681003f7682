-- Adds to a part of a sliding window if the sum of this part and the earlier parts is within a limit.
--
-- - KEYS: scratch (see apply.lua), the current and the previous block. A block is a hash with the count of each
--   part, and with the sum of the parts before it (`e`), which is final while the part is open.
-- - ARGV: amount, expiry of the current block, start (inclusive) and end (exclusive) of the part, limit, index
--   of the part in the block, number of parts in a block
--
-- Returns {1, count, now, 1} if the amount was added, {0, count, now, parts} if not, with the number of parts
-- after which it will fit, and {2, 0, now, 0} if the part is not open at `now`, the server time. If the server
-- refuses a write, the earlier ones are undone, so that a retry does not count twice and sets the expiry.

local now = tonumber(redis.call('TIME')[1])
if now < tonumber(ARGV[3]) or now >= tonumber(ARGV[4]) then
  return {2, 0, now, 0}
end
local amount, limit, index = tonumber(ARGV[1]), tonumber(ARGV[5]), tonumber(ARGV[6])
local known = redis.call('HMGET', KEYS[2], ARGV[6], ARGV[6] .. 'e')
local earlier = known[2] and tonumber(known[2])
if earlier and earlier + tonumber(known[1] or 0) + amount <= limit then
  return {1, earlier + redis.call('HINCRBY', KEYS[2], ARGV[6], ARGV[1]), now, 1}
end

-- This is the first call in the part, or the amount does not fit.
local fields = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
local counts = redis.call('HMGET', KEYS[3], unpack(fields, index + 1, tonumber(ARGV[7])))
local current = redis.call('HMGET', KEYS[2], unpack(fields, 1, index + 1))
local sum, is_new = 0, true
for place = 1, #counts do
  counts[place] = tonumber(counts[place] or 0)
  sum = sum + counts[place]
end
for place = 1, #current do
  is_new = is_new and not current[place]
  counts[#counts + 1] = tonumber(current[place] or 0)
  sum = sum + counts[#counts]
end
if sum + amount > limit then
  local left = sum
  for place = 1, #counts do
    left = left - counts[place]
    if left + amount <= limit or place == #counts then
      return {0, sum, now, place}
    end
  end
end
local count = redis.call('HINCRBY', KEYS[2], ARGV[6], ARGV[1])
local is_complete, problem = pcall(function()
  redis.call('HINCRBY', KEYS[2], ARGV[6] .. 'e', sum + amount - count)
  if is_new then
    redis.call('EXPIREAT', KEYS[2], ARGV[2])
  end
end)
if not is_complete then
  if known[1] then
    redis.pcall('HINCRBY', KEYS[2], ARGV[6], '-' .. ARGV[1])
  else
    redis.pcall('HDEL', KEYS[2], ARGV[6])
  end
  if not known[2] then
    redis.pcall('HDEL', KEYS[2], ARGV[6] .. 'e')
  end
  error(problem, 0)
end
return {1, sum + amount, now, 1}
