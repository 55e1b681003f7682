-- Scans known counters, and adds those written by other programs to the cleaning schedule.
--
-- - KEYS: known, due, scratch (see apply.lua)
-- - ARGV: lower bound of the scan, number of members to scan, budget of fields to read, prefix of counts,
--   default samples, then pairs of precision and samples
--
-- Returns the member to continue after, or '' when done.

local samples = {}
for at = 6, #ARGV, 2 do
  samples[tonumber(string.match(ARGV[at], '^%d+'))] = tonumber(ARGV[at + 1])
end
local limit, budget = tonumber(ARGV[2]), tonumber(ARGV[3])
local members = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], '+', 'LIMIT', 0, limit)
for _, member in ipairs(members) do
  local width, offset = string.match(member, '^(%d+)@?(%d*):')
  width, offset = tonumber(width), tonumber(offset) or 0
  if width and offset < width and not redis.call('ZSCORE', KEYS[2], member) then
    local fields = redis.pcall('HKEYS', ARGV[4] .. member)
    if fields.err and not string.find(fields.err, 'WRONGTYPE', 1, true) then
      return fields
    elseif not fields.err then
      local oldest
      for _, field in ipairs(fields) do
        local start = tonumber(field)
        if start and (not oldest or start < oldest) then
          oldest = start
        end
      end
      if #fields == 0 then
        redis.call('ZREM', KEYS[1], member)
      elseif oldest then
        local kept = (samples[width] or tonumber(ARGV[5])) * width
        redis.call('ZADD', KEYS[2], string.format('%.0f', oldest + kept), member)
      end
      budget = budget - #fields
      if budget <= 0 then
        return member
      end
    end
  end
end
return #members == limit and members[limit] or ''
