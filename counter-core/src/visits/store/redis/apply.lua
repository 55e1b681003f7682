-- Applies a batch exactly once.
--
-- KEYS:
-- - fence, known, due
-- - scratch, which never exists between scripts. If a cluster is moving this slot to another node, the script
--   will thus fail with TRYAGAIN or ASK before it has done anything.
-- - total, writers, forgotten, sources, sources-due
--
-- ARGV:
-- - sequence, after, writer
-- - for a source, "ever" or the retention in seconds. For a process, these lines: incarnation, then if
--   `after` is 0 a random mark, then optionally the expected witness, i.e. "listed" or "", and two marks.
-- - "hits", or "samples" to skip lifetimes, or "lifetimes" to skip the buckets of counts
-- - prefix of counts, prefix of visitors
-- - precisions of counts: a line with the precision and a line with the samples
-- - precisions of visitors, in the same format
-- - number of groups, then for each group: start, finest, and the cells as a line with the counter and a line
--   with the count
-- - visitors, as lines: counter, start, finest, then `e` or `d` followed by a number of bytes
-- - these bytes: elements of eight bytes (e), or a dense value (d)
-- - if there are bins: prefix of distributions, and precisions of distributions in the same format
-- - bins, as lines: counter, start, finest, then bins and counts, with a space after each
--
-- A precision is a width, or `width@offset` if buckets are shifted by this number of seconds. `finest` is the
-- index of the finest precision that retains the cell, like all coarser precisions. If it is past the last
-- precision, the count has expired and will only be added to the lifetime.
--
-- The fence of a process is `sequence:incarnation:since`, i.e. the number of the last batch, which must be at
-- least `after`, the incarnation that created this batch, and the last number of the previous incarnation. An
-- `after` of 0 creates the fence. If the sequence is above 1, this requires that there is no fence. The fence
-- of a source is a position which must be equal to `after`, because another reader could have split the
-- records at different positions.
--
-- Returns {'applied', remarks, time}, {'gap', fence, time} or {'conflict', fence, time}. `remarks` consists
-- of entries like '<part><index>:<reason>,', some with the error after the reason.
--
-- Redis does not roll back. We therefore write the fence before any counts, and allow a later write to fail
-- because of the value of its key, so that a key that always fails can't cause a retry to count the other keys
-- twice. Any other error is not about this key, but about this user or server, e.g. a permission. It can be
-- repaired, so we undo the batch, and return the error. Visitors are not removed, because they can't be counted
-- twice.
--
-- Fences must not have an expiry, because a server under memory pressure would evict them before other keys.

local time = tonumber(redis.call('TIME')[1])
local before_batch = redis.pcall('GET', KEYS[1])
local stored = before_batch or '0'
if type(stored) == 'table' then
  if not string.find(stored.err, 'WRONGTYPE', 1, true) then
    return stored
  end
  stored = '0'
end
local found = string.match(stored, '^[%x:]+') or '0'
local copy
local last = tonumber(string.match(found, '^%d+')) or 0
local sequence, after = tonumber(ARGV[1]), tonumber(ARGV[2])
local incarnation, mark, shown = string.match(ARGV[4], '^(%x+)\n([^\n]*)\n?(.*)$')
local is_source = not incarnation
if is_source then
  copy = redis.pcall('HGET', KEYS[8], ARGV[3])
  if type(copy) == 'table' and not string.find(copy.err, 'WRONGTYPE', 1, true) then
    return copy
  end
  last = math.max(last, type(copy) == 'string' and tonumber(copy) or 0)
  found = string.format('%.0f', last)
end
local before, since = string.match(found, ':(%x+):(%d+)$')
local is_opening = not is_source and after == 0
if last > 0 and is_opening and sequence > 1 then
  return {'gap', found, time}
end
local is_other = not is_source and before and before ~= incarnation
if last >= sequence and is_other and sequence > tonumber(since) then
  return {'conflict', found, time}
end
if last == sequence or (last > sequence and not is_source) then
  return {'applied', string.match(stored, '^' .. ARGV[1] .. '[%x:]* (.*)$') or '', time}
end
if last < after or (last ~= after and is_source) then
  return {'gap', found, time}
end
if is_opening then
  if shown ~= '' then
    local texts = {}
    for place, of in ipairs({{KEYS[6], ARGV[3]}, {KEYS[5], ''}, {KEYS[6], ''}}) do
      local reply = redis.pcall('HGET', unpack(of))
      texts[place] = type(reply) == 'string' and (place == 1 and 'listed' or reply) or ''
    end
    if table.concat(texts, '\n') .. '\n' ~= shown then
      return {'gap', '0', time}
    end
  end
  -- The marks to distinguish a lost fence from lost data.
  for _, entry in ipairs({{KEYS[5], '', mark}, {KEYS[6], '', mark}, {KEYS[6], ARGV[3], ''}}) do
    local reply = redis.pcall('HSETNX', unpack(entry))
    if type(reply) == 'table' and not string.find(reply.err, 'WRONGTYPE', 1, true) then
      return reply
    end
  end
end
local fence = ARGV[1]
if not is_source then
  fence = fence .. ':' .. incarnation .. ':' .. (is_other and string.format('%.0f', last) or since or '0')
end
redis.call('SET', KEYS[1], fence)

-- A process with a clock further ahead than this (25 hours, in seconds) would write to future buckets.
local AHEAD = 90000

local at = 8
local function take()
  local value = ARGV[at]
  at = at + 1
  return value
end

local remarks, quoted = {}, {}
local function refuse(part, reply)
  local reason
  if string.find(reply.err, 'WRONGTYPE', 1, true) or string.find(reply.err, 'wrong kind of value', 1, true) then
    reason = 'type'
  elseif string.find(reply.err, 'INVALIDOBJ', 1, true) then
    reason = 'other'
  elseif string.find(reply.err, 'not an integer', 1, true) then
    reason = 'number'
  elseif string.find(reply.err, 'overflow', 1, true) then
    reason = 'range'
  else
    error(reply, 0)
  end
  local kind = string.sub(part, 1, 1) .. reason
  if not quoted[kind] then
    quoted[kind] = part
    remarks[part] = reason .. ' ' .. string.gsub(string.sub(reply.err, 1, 200), '[,%c]', ' ')
  elseif quoted[kind] ~= part then
    remarks[part] = reason
  end
end

local function try(part, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    refuse(part, reply)
  end
end

-- What to undo. A step is a list of increments with the same key prefix. Only the last step can be incomplete:
-- `done` is the number of increments that were sent.
local steps, step, done, notices = {}, nil, 0, {}
local function begin(key, bucket, entries)
  step, done = {key = key, bucket = bucket, entries = entries, rejected = {}}, 0
  steps[#steps + 1] = step
end

local function reject(part, reply)
  refuse(part, reply)
  step.rejected[done + 1] = true
end

local function precisions()
  local all = {}
  for text, width, offset, samples in string.gmatch(take(), '((%d+)@?(%d*))\n(%d+)\n') do
    all[#all + 1] = {
      text = text,
      width = tonumber(width),
      offset = tonumber(offset) or 0,
      samples = tonumber(samples),
    }
  end
  return all
end

local function bounds(start, precision)
  -- The first bucket can be cut off by the Unix epoch.
  local first = math.max(start - (start - precision.offset) % precision.width, 0)
  return string.format('%.0f', first), string.format('%.0f', first + precision.width * precision.samples)
end

-- Returns the first second of a bucket, and the time at which its visitors and distributions are removed: see
-- `Retention::removal`.
local function removal(start, precision)
  local first, expiry = bounds(start, precision)
  return first, string.format('%.0f', expiry + 4 * precision.width)
end

local redis_pcall = redis.pcall
local function write()
  if is_source then
    -- This must follow the fence: if the fence could not be written, a copy ahead of it would be mistaken for
    -- the fence.
    try('i0', 'HSET', KEYS[8], ARGV[3], ARGV[1])
    if ARGV[4] == 'ever' then
      try('i0', 'ZREM', KEYS[9], ARGV[3])
    else
      try('i0', 'ZADD', KEYS[9], string.format('%.0f', time + tonumber(ARGV[4])), ARGV[3])
    end
  end

  local counts, uniques = precisions(), precisions()
  if ARGV[5] == 'lifetimes' then
    counts = {}
  end

  -- We collect the entries for new buckets, to send two commands instead of two for each bucket.
  local known, due = {}, {}
  local function enter()
    if #known > 0 then
      try('i0', 'ZADD', KEYS[2], unpack(known))
      try('i0', 'ZADD', KEYS[3], 'LT', unpack(due))
      known, due = {}, {}
    end
  end

  -- Groups of cells with the same start. Splitting an argument here is as cheap as receiving it in parts, while
  -- each argument costs hundreds of instructions in the client. Names can't contain line breaks.
  local groups, cells, every, refusals = {}, 0, '', {}
  for n = 1, tonumber(take()) do
    local group = {name = n .. ' ', start = tonumber(take()), finest = tonumber(take()), cell = cells}
    local size = 0
    for counter, count in string.gmatch(take(), '([^\n]+)\n(%d+)\n') do
      group[size + 1], group[size + 2] = counter, count
      size = size + 2
    end
    if group.start > time + AHEAD then
      for cell = cells, cells + size / 2 - 1 do
        remarks['c' .. cell] = 'ahead'
      end
    else
      groups[#groups + 1], every = group, every .. group.name
    end
    cells = cells + size / 2
  end

  -- Sums the counts of some groups by counter, along with the cells. A flush usually covers two seconds which
  -- have all but one bucket in common, so we cache the sums for the following precisions.
  local sums = {}
  local function sum(some, name)
    if sums[name] then
      return sums[name]
    end
    local entries, latest = {}, {}
    for _, group in ipairs(some) do
      for n = 0, #group / 2 - 1 do
        local counter, text = group[2 * n + 1], group[2 * n + 2]
        local count, entry = tonumber(text), latest[counter]
        -- Numbers above 2^53 are not exact in Lua, so we need to add these counts individually.
        if entry and entry.count + count < 2 ^ 53 then
          entry.count = entry.count + count
          entry.text = nil
          entry.cells[#entry.cells + 1] = group.cell + n
        else
          entry = {counter = counter, count = count, text = text, cells = {group.cell + n}}
          entries[#entries + 1] = entry
          latest[counter] = entry
        end
      end
    end
    for _, entry in ipairs(entries) do
      entry.text = entry.text or string.format('%.0f', entry.count)
    end
    sums[name] = entries
    return entries
  end

  for place, precision in ipairs(counts) do
    local buckets, order = {}, {}
    for _, group in ipairs(groups) do
      if group.finest <= place then
        local first, expiry = bounds(group.start, precision)
        local bucket = buckets[first]
        if not bucket then
          bucket = {first = first, expiry = expiry, name = ''}
          buckets[first] = bucket
          order[#order + 1] = bucket
        end
        bucket[#bucket + 1] = group
        bucket.name = bucket.name .. group.name
      end
    end
    local prefix = precision.text .. ':'
    local key = ARGV[6] .. prefix
    for _, bucket in ipairs(order) do
      local entries = sum(bucket, bucket.name)
      begin(key, bucket.first, entries)
      for n, entry in ipairs(entries) do
        local reply = redis_pcall('HINCRBY', key .. entry.counter, bucket.first, entry.text)
        -- If the reply is equal to the count, the bucket is new. Otherwise, the index doesn't change.
        if reply == entry.count then
          local size = #known
          known[size + 1], known[size + 2] = '0', prefix .. entry.counter
          due[size + 1], due[size + 2] = bucket.expiry, prefix .. entry.counter
          -- `unpack` is limited to about 8,000 values.
          if size > 2000 then
            enter()
          end
        elseif type(reply) == 'table' then
          for _, cell in ipairs(entry.cells) do
            reject('c' .. cell, reply)
            refusals[cell] = (refusals[cell] or 0) + 1
          end
        end
        done = n
      end
    end
  end

  -- Hits are added to the lifetime if at least one bucket accepted them, or if they are past retention in all
  -- precisions. If a counter was forgotten, each writer must be notified, because the visitors it already sent
  -- have been deleted.
  local some_forgotten = redis.pcall('HLEN', KEYS[7])
  if type(some_forgotten) == 'table' then
    refuse('i0', some_forgotten)
  end
  some_forgotten = type(some_forgotten) == 'number' and some_forgotten > 0
  local entries, new_values = {}, {}
  if ARGV[5] == 'samples' then
    -- Lifetimes don't change.
  elseif next(refusals) then
    for _, group in ipairs(groups) do
      for n = 0, #group / 2 - 1 do
        local cell, text = group.cell + n, group[2 * n + 2]
        if not refusals[cell] or refusals[cell] <= #counts - group.finest then
          entries[#entries + 1] = {counter = group[2 * n + 1], count = tonumber(text), text = text, cells = {cell}}
        end
      end
    end
  else
    entries = sum(groups, every)
  end
  begin(KEYS[5], nil, entries)
  for n, entry in ipairs(entries) do
    local counter, cell = entry.counter, entry.cells[1]
    local reply = redis_pcall('HINCRBY', KEYS[5], counter, entry.text)
    if type(reply) == 'table' then
      reject('i0', reply)
    elseif reply == entry.count then
      remarks['b' .. cell] = 'began'
      if #counts > 0 and string.sub(counter, 1, 6) == 'label:' then
        new_values[#new_values + 1] = counter
      end
    end
    done = n
    if some_forgotten then
      local told = counter .. '\n' .. ARGV[3]
      local times = redis.call('HMGET', KEYS[7], counter, told)
      if times[1] and times[1] ~= times[2] then
        remarks['b' .. cell] = 'began'
        redis.call('HSET', KEYS[7], told, times[1])
        notices[#notices + 1] = told
      end
    end
  end
  enter()

  local index, heads, values, from = 0, take(), take(), 1
  for counter, start, finest, kind, size in string.gmatch(heads, '([^\n]+)\n(%d+)\n(%d+)\n([de])(%d+)\n') do
    local part, last = 'v' .. index, from + tonumber(size) - 1
    local dense, elements = nil, {}
    if kind == 'd' then
      dense = string.sub(values, from, last)
    else
      for byte = from, last, 8 do
        elements[#elements + 1] = string.sub(values, byte, byte + 7)
      end
    end
    local ahead = tonumber(start) > time + AHEAD
    if ahead then
      remarks[part] = 'ahead'
    end
    for place = ahead and #uniques + 1 or tonumber(finest), #uniques do
      local precision = uniques[place]
      local first, expiry = removal(tonumber(start), precision)
      local key = ARGV[7] .. precision.text .. ':' .. counter .. ':' .. first
      if dense then
        try(part, 'SET', KEYS[4], dense)
        try(part, 'PFMERGE', key, KEYS[4])
        try(part, 'DEL', KEYS[4])
      else
        try(part, 'PFADD', key, unpack(elements))
      end
      -- A retry will set the same expiry, so we can always set it.
      try(part, 'EXPIREAT', key, expiry)
    end
    index, from = index + 1, last + 1
  end

  local prefix = take()
  if prefix then
    local distributions, index = precisions(), 0
    for counter, start, finest, bins in string.gmatch(take(), '([^\n]+)\n(%d+)\n(%d+)\n([^\n]*)\n') do
      local part = 'd' .. index
      local ahead = tonumber(start) > time + AHEAD
      if ahead then
        remarks[part] = 'ahead'
      end
      for place = ahead and #distributions + 1 or tonumber(finest), #distributions do
        local precision = distributions[place]
        local first, expiry = removal(tonumber(start), precision)
        local key = prefix .. precision.text .. ':' .. counter .. ':' .. first
        begin(key, nil, bins)
        for bin, count in string.gmatch(bins, '(%S+) (%d+) ') do
          local reply = redis_pcall('HINCRBY', key, bin, count)
          if type(reply) == 'table' then
            reject(part, reply)
          end
          done = done + 1
        end
        try(part, 'EXPIREAT', key, expiry)
      end
      index = index + 1
    end
  end

  -- The lifetime of a label value is removed with its last sample (see clean.lua), so it must not be created by
  -- expired hits.
  for _, value in ipairs(new_values) do
    if not redis.call('ZSCORE', KEYS[2], counts[#counts].text .. ':' .. value) then
      try('i0', 'HDEL', KEYS[5], value)
    end
  end
end

-- Some servers raise an error even in `redis.pcall`.
local is_complete, problem = pcall(write)
if not is_complete then
  local function subtract(key, field, count)
    if redis.pcall('HINCRBY', key, field, '-' .. count) == 0 then
      redis.pcall('HDEL', key, field)
    end
  end
  for place, one in ipairs(steps) do
    local entries, number = one.entries, 0
    local function is_next()
      number = number + 1
      return not one.rejected[number] and (place < #steps or number <= done)
    end
    if type(entries) == 'string' then
      for bin, count in string.gmatch(entries, '(%S+) (%d+) ') do
        if is_next() then
          subtract(one.key, bin, count)
        end
      end
    else
      for _, entry in ipairs(entries) do
        if is_next() then
          subtract(one.bucket and one.key .. entry.counter or one.key, one.bucket or entry.counter, entry.text)
        end
      end
    end
  end
  if #notices > 0 then
    redis.pcall('HDEL', KEYS[7], unpack(notices))
  end
  if is_source and type(copy) == 'string' then
    redis.pcall('HSET', KEYS[8], ARGV[3], copy)
  elseif is_source then
    redis.pcall('HDEL', KEYS[8], ARGV[3])
  end
  if type(before_batch) == 'string' or type(redis.pcall('DEL', KEYS[1])) == 'table' then
    redis.call('SET', KEYS[1], stored)
  end
  local words = type(problem) == 'table' and problem.err or tostring(problem)
  return {err = string.find(words, '^%u+ ') and words or 'ERR ' .. words}
end

local list = {}
for part, reason in pairs(remarks) do
  list[#list + 1] = part .. ':' .. reason .. ','
end
local text = table.concat(list)
if text ~= '' then
  -- We need to store the remarks for a retry, in case the reply is lost.
  redis.call('SET', KEYS[1], fence .. ' ' .. text)
end
return {'applied', text, time}
