-- Stores copies of entities if their lease is still valid, and ends the lease.
--
-- - KEYS: scratch (see apply.lua), then for each entity: copy and lease
-- - ARGV: token, then for each entity: copy TTL in milliseconds, n, then n times: field, '<value> <version>'
--
-- Returns the number of stored copies. If the lease is still valid, no changes were reported since it was
-- granted, so the rows are current and replace the old copy.

local kept, at = 0, 2
for key = 2, #KEYS, 2 do
  local copy, lease = KEYS[key], KEYS[key + 1]
  local lives, words = ARGV[at], 2 * tonumber(ARGV[at + 1])
  at = at + 2
  if redis.pcall('GET', lease) == ARGV[1] then
    redis.call('DEL', lease, copy)
    redis.call('HSET', copy, unpack(ARGV, at, at + words - 1))
    local is_complete, problem = pcall(redis.call, 'PEXPIRE', copy, lives)
    if not is_complete then
      -- A copy must not last forever.
      redis.call('DEL', copy)
      error(problem, 0)
    end
    kept = kept + 1
  end
  at = at + words
end
return kept
