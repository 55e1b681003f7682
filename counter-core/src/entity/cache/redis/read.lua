-- Looks up copies of entities, and grants leases for those that are not warm.
--
-- - KEYS: scratch (see apply.lua), then for each entity: copy and lease
-- - ARGV: token, lease TTL in milliseconds, then the fields
--
-- Returns for each entity either the strings '<value> <version>' of all fields, or 'cold', or 'leased'.

local function warm(copy)
  local found = redis.pcall('HMGET', copy, unpack(ARGV, 3))
  -- Ignore keys of a different type.
  if found.err then
    return nil
  end
  for place = 1, #ARGV - 2 do
    if not found[place] then
      return nil
    end
  end
  return found
end

local answers = {}
for at = 2, #KEYS, 2 do
  local answer = warm(KEYS[at])
  if not answer then
    local leased = redis.call('SET', KEYS[at + 1], ARGV[1], 'NX', 'PX', ARGV[2])
    answer = leased and 'cold' or 'leased'
  end
  answers[#answers + 1] = answer
end
return answers
