-- Removes samples that left retention, of the counters whose turn it is, up to a budget of work.
--
-- KEYS  known, due, scratch (see apply.lua)
-- ARGV  now, budget, prefix of counts, samples of other widths, then pairs: width, samples
--
-- Answers {samples removed, counters removed, 1 if more is due}.
--
-- The score of a member in `due` is when its oldest sample leaves retention, so the starts to delete
-- follow from arithmetic. Where there are more of them than fields, or they would leave more fields
-- than are kept (another retention was at work here), the fields are read instead, and the score
-- becomes exact again.

local now, budget = tonumber(ARGV[1]), tonumber(ARGV[2])
local samples = {}
for at = 5, #ARGV, 2 do
  samples[tonumber(ARGV[at])] = tonumber(ARGV[at + 1])
end
local removed, forgotten = 0, 0

local function number(value)
  return string.format('%.0f', value)
end

local function clean(member, score)
  -- The width of its buckets, and by how much they begin after the multiples of it.
  local width, offset = string.match(member, '^(%d+)@?(%d*):')
  width, offset = tonumber(width), tonumber(offset) or 0
  if not width or offset >= width then
    redis.call('ZREM', KEYS[2], member)
    return 1
  end
  local key = ARGV[3] .. member
  local size = redis.pcall('HLEN', key)
  if type(size) == 'table' then
    -- Not a hash, so not ours to clean.
    redis.call('ZREM', KEYS[2], member)
    return 1
  end
  local kept = (samples[width] or tonumber(ARGV[4])) * width
  -- Starts up to here go.
  local last = math.floor((now - kept - offset) / width) * width + offset
  local oldest = math.floor((score - kept - offset) / width) * width + offset
  local starts = (last - oldest) / width + 1
  local doomed, next = {}, nil
  if size <= 1000 and (size <= starts or (size - starts) * width > kept) then
    for _, field in ipairs(redis.call('HKEYS', key)) do
      local start = tonumber(field)
      if start and start <= last then
        doomed[#doomed + 1] = field
      elseif start and (not next or start < next) then
        next = start
      end
    end
    next = next or last + width
  else
    local stop = math.min(last, oldest + 999 * width)
    for start = oldest, stop, width do
      doomed[#doomed + 1] = number(start)
    end
    next = stop + width
  end
  local gone = #doomed > 0 and redis.call('HDEL', key, unpack(doomed)) or 0
  removed = removed + gone
  if gone == size then
    redis.call('ZREM', KEYS[1], member)
    redis.call('ZREM', KEYS[2], member)
    forgotten = forgotten + 1
  else
    redis.call('ZADD', KEYS[2], number(next + kept), member)
  end
  return 10 + #doomed
end

while budget > 0 do
  local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, 20)
  if #due == 0 then
    return {removed, forgotten, 0}
  end
  for at = 1, #due, 2 do
    budget = budget - clean(due[at], tonumber(due[at + 1]))
    if budget <= 0 then
      break
    end
  end
end
return {removed, forgotten, 1}
