-- Keeps copies of entities for which the lease is still valid, and ends it.
--
-- KEYS  scratch (see apply.lua), then for each entity: its copy, its lease
-- ARGV  token, then for each entity: milliseconds the copy lives, n, then n times: field, '<value> <version>'
--
-- Returns how many were kept. A lease that is still valid means that no change was reported since it was taken,
-- so what was read under it is the latest, and replaces whatever there is.

local kept, at = 0, 2
for key = 2, #KEYS, 2 do
  local copy, lease = KEYS[key], KEYS[key + 1]
  local lives, words = ARGV[at], 2 * tonumber(ARGV[at + 1])
  at = at + 2
  if redis.pcall('GET', lease) == ARGV[1] then
    redis.call('DEL', lease, copy)
    redis.call('HSET', copy, unpack(ARGV, at, at + words - 1))
    redis.call('PEXPIRE', copy, lives)
    kept = kept + 1
  end
  at = at + words
end
return kept
