-- Tells of rows that have changed: ends the leases, and brings the copies that are there up to date.
--
-- KEYS  scratch (see apply.lua), then for each row: its entity's copy and lease
-- ARGV  for each row: field, version, '<value> <version>'
--
-- A version is compared as a double, exact up to 2^53 writes of one row; a value never is one.

local at = 1
for key = 2, #KEYS, 2 do
  local copy = KEYS[key]
  redis.call('DEL', KEYS[key + 1])
  if redis.call('EXISTS', copy) == 1 then
    local found = redis.pcall('HGET', copy, ARGV[at])
    local newer = not found
    if type(found) == 'string' then
      newer = (tonumber(string.match(found, ' (%d+)$')) or 0) < tonumber(ARGV[at + 1])
    end
    if newer then
      redis.call('HSET', copy, ARGV[at], ARGV[at + 2])
    end
  end
  at = at + 3
end
return 1
