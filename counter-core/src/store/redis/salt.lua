-- The salt of an epoch: the first that was offered. SET with NX and GET at once is of Redis 7 only.
--
-- KEYS  the salt
-- ARGV  the candidate, the Unix second at which the key expires
--
-- Answers the salt.

local kept = redis.call('GET', KEYS[1])
if kept then
  return kept
end
redis.call('SET', KEYS[1], ARGV[1], 'EXAT', ARGV[2])
return ARGV[1]
