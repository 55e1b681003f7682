-- Replaces a document if the version has not changed.
--
-- KEYS  the document
--
-- ARGV  the expected version, the new version, and the content
--
-- Returns 1 if the document has been replaced, 0 if the version does not match.

if (redis.call('HGET', KEYS[1], 'version') or '0') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'content', ARGV[3])
return 1
