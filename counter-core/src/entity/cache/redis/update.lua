-- Reports changed rows: ends the leases, and updates existing copies.
--
-- - KEYS: scratch (see apply.lua), then for each row: copy and lease of the entity
-- - ARGV: for each row: field, version, '<value> <version>'
--
-- Versions are compared as doubles, which are exact up to 2^53 writes per row. Values are never converted.

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
