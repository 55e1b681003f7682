-- Replaces a document that still has the version that was seen.
--
-- KEYS  the document
-- ARGV  the version that was seen, the new one, and the content
--
-- Returns 1 if it had that version, and 0 if nothing was done.

if (redis.call('HGET', KEYS[1], 'version') or '0') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'content', ARGV[3])
return 1
