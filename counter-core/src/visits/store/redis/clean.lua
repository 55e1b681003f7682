-- Removes samples past retention from counters that are due, within a work budget.
--
-- - KEYS: known, due, scratch (see apply.lua), sources, sources-due, total
-- - ARGV: now, budget, prefix of counts, prefix of sources, default samples, then pairs of precision and
--   samples
--
-- Returns {samples removed, counters removed, 1 if more is due}.
--
-- The score of a member in `due` is when the oldest sample will be past retention, so we can compute the
-- starts to delete. If there are more starts than fields, or if too many fields would remain (because another
-- retention was used before), we read all fields instead, which also corrects the score. We do the same if
-- there was nothing to remove, so that a counter with few hits will not be due until a sample has actually
-- expired.

-- If the clock of an instance is ahead, it must not remove samples that are still retained by other
-- instances.
local time = tonumber(redis.call('TIME')[1])
local now, budget = math.min(tonumber(ARGV[1]), time), tonumber(ARGV[2])
local samples, precisions = {}, {}
for at = 6, #ARGV, 2 do
  samples[tonumber(string.match(ARGV[at], '^%d+'))] = tonumber(ARGV[at + 1])
  precisions[#precisions + 1] = ARGV[at]
end
local removed, forgotten = 0, 0

local function number(value)
  return string.format('%.0f', value)
end

-- Calls a command. Returns nil if the key has a different type, because then it is not ours to clean.
local function try(...)
  local is_complete, reply = pcall(redis.call, ...)
  if is_complete then
    return reply
  end
  if not string.find(type(reply) == 'table' and reply.err or reply, 'WRONGTYPE', 1, true) then
    error(reply, 0)
  end
end

-- Removes up to 100 sources with an expired life, only by the server clock.
local ended = try('ZRANGEBYSCORE', KEYS[5], '-inf', number(time), 'LIMIT', 0, 100) or {}
if #ended > 0 then
  local positions = {}
  for _, source in ipairs(ended) do
    positions[#positions + 1] = ARGV[4] .. source
  end
  -- If a command is refused, the sources are still due.
  try('HDEL', KEYS[4], unpack(ended))
  redis.call('DEL', unpack(positions))
  redis.call('ZREM', KEYS[5], unpack(ended))
  budget = budget - 3 * #ended
end

-- Limits by precision, shared by all counters. Starts up to `last` are expired. Bucket starts are shifted by
-- `offset` seconds.
local limits = {}
local function limit_of(precision)
  if precision and not limits[precision] then
    local width, offset = string.match(precision, '^(%d+)@?(%d*)$')
    width, offset = tonumber(width), tonumber(offset) or 0
    if offset < width then
      local kept = (samples[width] or tonumber(ARGV[5])) * width
      local last = math.floor((now - kept - offset) / width) * width + offset
      limits[precision] = {width = width, offset = offset, kept = kept, last = last}
    end
  end
  return limits[precision or '']
end

-- Returns all expired fields, and the oldest start to keep.
local function read(key, limit)
  local old, next = {}, nil
  local fields = redis.call('HKEYS', key)
  for _, field in ipairs(fields) do
    local start = tonumber(field)
    if start and start <= limit.last then
      old[#old + 1] = field
    elseif start and (not next or start < next) then
      next = start
    end
  end
  -- Reading a field costs about a quarter of removing it.
  budget = budget - #fields / 4
  return old, next or limit.last + limit.width
end

local function remove(key, fields)
  budget = budget - #fields
  return #fields > 0 and redis.call('HDEL', key, unpack(fields)) or 0
end

-- Removes the lifetime of a label value with its last sample. Clients can send any value, so these would
-- accumulate.
local function forget_value(name)
  if not name or string.sub(name, 1, 6) ~= 'label:' then
    return
  end
  for _, precision in ipairs(precisions) do
    if redis.call('ZSCORE', KEYS[1], precision .. ':' .. name) then
      return
    end
  end
  budget = budget - #precisions
  try('HDEL', KEYS[6], name)
end

-- Moves the newest sample to the front if many more hits are expected in this bucket. Redis searches a small
-- hash from the first field, and HINCRBY does this twice, so that this takes longer than all the rest of a
-- HINCRBY. New fields are added to the end.
local function move_newest(key, size, limit)
  local width = limit.width
  local start = math.floor((now - limit.offset) / width) * width + limit.offset
  local elapsed = now - start + 1
  if size < 30 or size > 500 or width - elapsed < 30 then
    return
  end
  local newest = number(start)
  -- This is only an optimization, so it must not fail if the server does not permit a command.
  local count = redis.pcall('HGET', key, newest)
  -- Moving a sample costs about as much as this number of updates.
  if type(count) ~= 'string' or (tonumber(count) or 0) * (width - elapsed) < 50 * elapsed then
    return
  end
  -- If the server rejects writes, we must find out before we remove the other samples.
  if type(redis.pcall('HSET', key, newest, count)) == 'table' then
    return
  end
  local fields, others, entries = redis.pcall('HGETALL', key), {}, {}
  if fields.err or fields[1] == newest then
    return
  end
  for at = 1, #fields, 2 do
    if fields[at] ~= newest then
      others[#others + 1] = fields[at]
      entries[#entries + 1] = fields[at]
      entries[#entries + 1] = fields[at + 1]
    end
  end
  redis.call('HDEL', key, unpack(others))
  redis.call('HSET', key, unpack(entries))
  budget = budget - size
end

-- Returns the new score, or nil if the member is done.
local function clean(member, score)
  local limit = limit_of(string.match(member, '^(%d+@?%d*):'))
  local key = ARGV[3] .. member
  local size = limit and try('HLEN', key)
  if type(size) ~= 'number' then
    -- This key is not a hash, so it is not ours to clean.
    redis.call('ZREM', KEYS[2], member)
    return nil
  end
  if score ~= score or score < 0 then
    score = 0
  end
  local width, kept, last = limit.width, limit.kept, limit.last
  local oldest = math.floor((score - kept - limit.offset) / width) * width + limit.offset
  local starts = (last - oldest) / width + 1
  local old, next, gone
  if size <= 1000 and (size <= starts or (size - starts) * width > kept) then
    old, next = read(key, limit)
    gone = remove(key, old)
  else
    local stop = math.min(last, oldest + 999 * width)
    old, next = {}, stop + width
    for start = oldest, stop, width do
      old[#old + 1] = number(start)
    end
    gone = remove(key, old)
    if gone == 0 and size <= 1000 then
      old, next = read(key, limit)
      gone = remove(key, old)
    end
  end
  removed = removed + gone
  if gone == size then
    redis.call('ZREM', KEYS[1], member)
    -- If this is refused, the member is still due.
    forget_value(string.match(member, ':(.*)$'))
    redis.call('ZREM', KEYS[2], member)
    forgotten = forgotten + 1
    return nil
  end
  move_newest(key, size - gone, limit)
  return next + kept
end

while budget > 0 do
  local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', number(now), 'WITHSCORES', 'LIMIT', 0, 40)
  if #due == 0 then
    return {removed, forgotten, #ended == 100 and 1 or 0}
  end
  -- A single ZADD is cheaper than forty.
  local scores = {}
  for at = 1, #due, 2 do
    budget = budget - 10
    local score = clean(due[at], tonumber(due[at + 1]))
    if score then
      scores[#scores + 1] = number(score)
      scores[#scores + 1] = due[at]
    end
    if budget <= 0 then
      break
    end
  end
  if #scores > 0 then
    redis.call('ZADD', KEYS[2], unpack(scores))
  end
end
return {removed, forgotten, 1}
