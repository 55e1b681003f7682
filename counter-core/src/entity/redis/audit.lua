-- Removes copies that differ from the rows, and their leases.
--
-- KEYS  scratch (see apply.lua), then for each row: its entity's copy and lease
-- ARGV  for each row: field, '<value> <version>'
--
-- Returns how many copies were removed.

local removed, at = 0, 1
for key = 2, #KEYS, 2 do
  local found = redis.pcall('HGET', KEYS[key], ARGV[at])
  if found and found ~= ARGV[at + 1] then
    removed = removed + redis.call('DEL', KEYS[key])
    redis.call('DEL', KEYS[key + 1])
  end
  at = at + 2
end
return removed
