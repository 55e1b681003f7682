-- Adds items to an adaptive or HyperLogLog counter, and converts a set into registers if it gets too large.
--
-- - KEYS: the counter
-- - ARGV: maximum number of items in a set ('' if the counter is never a set, 0 to force a conversion), then
--   the items
--
-- Returns the number of new items (for registers: items that raise a register), and 1 if the counter is still
-- a set. A key of an unrelated type fails at the command that reads it, i.e. before any write.

local key, most = KEYS[1], tonumber(ARGV[1])

local function add(command)
  local new = 0
  for at = 2, #ARGV do
    new = new + redis.call(command, key, ARGV[at])
  end
  return new
end

-- Starts with the registers of an empty HyperLogLog in the dense encoding, where the cached count is marked
-- as stale: filling sparse registers would dominate the conversion time. The key keeps the expiry, if any.
local function convert()
  local items = redis.call('SMEMBERS', key)
  local empty = 'HYLL' .. string.rep('\0', 11) .. '\128' .. string.rep('\0', 12288)
  redis.call('SET', key, empty, 'KEEPTTL')
  for at = 1, #items, 5000 do
    redis.call('PFADD', key, unpack(items, at, math.min(at + 4999, #items)))
  end
end

if most and redis.call('TYPE', key).ok ~= 'string' then
  if most > 0 then
    local new = add('SADD')
    if redis.call('SCARD', key) <= most then
      return { new, 1 }
    end
    convert()
    return { new, 0 }
  end
  convert()
end
return { add('PFADD'), 0 }
