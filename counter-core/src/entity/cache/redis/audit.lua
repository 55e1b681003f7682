-- Removes copies that differ from the rows, and their leases, unless the copy has a larger version.
--
-- - KEYS: scratch (see apply.lua), then for each row: copy and lease of the entity
-- - ARGV: for each row: field, version, '<value> <version>'
--
-- Returns the number of removed copies, and the newer copies as row index and '<value> <version>'.
--
-- Versions are compared as doubles, like in update.lua.

local removed, newer, at = 0, {}, 1
for key = 2, #KEYS, 2 do
  local found = redis.pcall('HGET', KEYS[key], ARGV[at])
  if found and found ~= ARGV[at + 2] then
    local version = type(found) == 'string' and tonumber(string.match(found, ' (%d+)$')) or 0
    if version > tonumber(ARGV[at + 1]) then
      newer[#newer + 1] = {key / 2 - 1, found}
    else
      removed = removed + redis.call('DEL', KEYS[key])
      redis.call('DEL', KEYS[key + 1])
    end
  end
  at = at + 3
end
return {removed, newer}
