-- Adds items to a unique counter that has registers, or has a set until it has too many items for one.
--
-- KEYS  the counter
-- ARGV  up to how many items it stays a set ('' for one that never is, 0 for one that shall be none any
--       more), then the items
--
-- Returns how many items were new (of registers: how many raised one), and 1 while it is a set. A key of
-- another type fails at the first command that looks at it, before anything is written.

local key, most = KEYS[1], tonumber(ARGV[1])

local function add(command)
  local new = 0
  for at = 2, #ARGV do
    new = new + redis.call(command, key, ARGV[at])
  end
  return new
end

-- The registers of an empty HyperLogLog, dense, with a cached count that is marked as stale. Sparse ones would
-- take longer to fill than all the rest; and the key keeps its expiry, if it has one.
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
