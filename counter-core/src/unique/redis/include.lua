-- Adds items to an adaptive or HyperLogLog counter, and converts a set into registers if it gets too large.
--
-- - KEYS: the counter, and scratch (see apply.lua) if the counter can be a set
-- - ARGV: maximum number of items in a set ('' if the counter is never a set, 0 to force a conversion), then
--   the items
--
-- Returns the number of new items (for registers: items that raise a register), and 1 if the counter is still
-- a set. A key of an unrelated type fails at the command that reads it, i.e. before any write. If the server
-- refuses a later command, the set stays as it was.

local key, scratch, most = KEYS[1], KEYS[2], tonumber(ARGV[1])

local function add(command)
  local new = {}
  for at = 2, #ARGV do
    if redis.call(command, key, ARGV[at]) == 1 then
      new[#new + 1] = ARGV[at]
    end
  end
  return new
end

-- Starts with the registers of an empty HyperLogLog in the dense encoding, where the cached count is marked
-- as stale: filling sparse registers would dominate the conversion time. The key is only replaced when they are
-- complete, and keeps the expiry, if any.
local function convert()
  local items = redis.call('SMEMBERS', key)
  local empty = 'HYLL' .. string.rep('\0', 11) .. '\128' .. string.rep('\0', 12288)
  redis.call('SET', scratch, empty, 'EX', 60)
  for at = 1, #items, 5000 do
    redis.call('PFADD', scratch, unpack(items, at, math.min(at + 4999, #items)))
  end
  redis.call('SET', key, redis.call('GET', scratch), 'KEEPTTL')
end

-- Converts the set if it is too large. If this is refused, removes these items and raises the error. Returns 1 if the counter
-- is still a set.
local function convert_or_undo(new)
  local is_complete, problem = pcall(function()
    if most > 0 and redis.call('SCARD', key) <= most then
      return 1
    end
    convert()
    redis.call('DEL', scratch)
    return 0
  end)
  if not is_complete then
    redis.pcall('DEL', scratch)
    for at = 1, #new, 5000 do
      redis.pcall('SREM', key, unpack(new, at, math.min(at + 4999, #new)))
    end
    error(problem, 0)
  end
  return problem
end

if most and redis.call('TYPE', key).ok ~= 'string' then
  if most > 0 then
    local new = add('SADD')
    return { #new, convert_or_undo(new) }
  end
  convert_or_undo({})
end
return { #add('PFADD'), 0 }
