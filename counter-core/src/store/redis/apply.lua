-- Applies a batch once.
--
-- KEYS  fence, known, due, scratch (which never exists between two scripts: so a cluster that moves this
--       slot to another node answers TRYAGAIN or ASK before anything is done, and not in the middle), total
-- ARGV  sequence, after, seconds the fence lives, prefix of counts, prefix of visitors,
--       n, then n times: precision, samples                           (counts)
--       n, then n times: precision, samples                           (visitors)
--       n, then n times: start, finest, m, then m times: counter, count
--       n, then n times: counter, start, finest, dense or '', m, then m elements
--
-- `finest` is the place of the first precision that takes part; the coarser ones follow from `start`.
-- Answers {'applied', refused} or {'gap', last}; `refused` is a text of '<part><index>:<reason>,'.
--
-- Redis does not roll back: the fence comes first, and every write after it may fail alone, so that a
-- key that always fails cannot make a retry count the others twice.

local stored = redis.call('GET', KEYS[1]) or '0'
local last = tonumber(string.match(stored, '^%d+'))
local sequence = tonumber(ARGV[1])
if last >= sequence then
  return {'applied', last == sequence and string.match(stored, ' (.*)$') or ''}
end
if last < tonumber(ARGV[2]) then
  return {'gap', last}
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])

local at = 6
local function take()
  local value = ARGV[at]
  at = at + 1
  return value
end

local refused = {}
local function refuse(part, reply)
  local reason = 'other'
  if string.find(reply.err, 'WRONGTYPE', 1, true) then
    reason = 'type'
  elseif string.find(reply.err, 'not an integer', 1, true) then
    reason = 'number'
  elseif string.find(reply.err, 'overflow', 1, true) then
    reason = 'range'
  end
  refused[part] = reason
end

local function try(part, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    refuse(part, reply)
  end
end

local function precisions()
  local all = {}
  for place = 1, tonumber(take()) do
    local text = take()
    all[place] = {text = text, width = tonumber(text), samples = tonumber(take())}
  end
  return all
end

local counts, uniques = precisions(), precisions()

local function bounds(start, precision)
  local first = start - start % precision.width
  return string.format('%.0f', first), string.format('%.0f', first + precision.width * precision.samples)
end

-- Of the buckets that are new, for two commands in the place of two for each bucket.
local known, due = {}, {}
local function enter()
  if #known > 0 then
    try('i0', 'ZADD', KEYS[2], unpack(known))
    try('i0', 'ZADD', KEYS[3], 'LT', unpack(due))
    known, due = {}, {}
  end
end

local pcall = redis.pcall
local cell = 0
for _ = 1, tonumber(take()) do
  local start, finest, cells = tonumber(take()), tonumber(take()), tonumber(take())
  -- Found once for all the counters: text costs more here than the arithmetic.
  local buckets = {}
  for place = finest, #counts do
    local member = counts[place].text .. ':'
    local first, expiry = bounds(start, counts[place])
    buckets[#buckets + 1] = {key = ARGV[4] .. member, member = member, first = first, expiry = expiry}
  end
  for _ = 1, cells do
    local counter, count = ARGV[at], ARGV[at + 1]
    local number = tonumber(count)
    for place = 1, #buckets do
      local bucket = buckets[place]
      local sum = pcall('HINCRBY', bucket.key .. counter, bucket.first, count)
      -- The sum is the count when the bucket is new; when it is not, the index does not change.
      if sum == number then
        local member, size = bucket.member .. counter, #known
        known[size + 1], known[size + 2] = '0', member
        due[size + 1], due[size + 2] = bucket.expiry, member
        -- `unpack` has an end, at 8,000.
        if size > 2000 then
          enter()
        end
      elseif type(sum) == 'table' then
        refuse('c' .. cell, sum)
      end
    end
    try('i0', 'HINCRBY', KEYS[5], counter, count)
    cell, at = cell + 1, at + 2
  end
end
enter()

for index = 0, tonumber(take()) - 1 do
  local counter, start, finest, dense, elements = take(), tonumber(take()), tonumber(take()), take(), tonumber(take())
  for place = finest, #uniques do
    local precision = uniques[place]
    local first, expiry = bounds(start, precision)
    local key = ARGV[5] .. precision.text .. ':' .. counter .. ':' .. first
    local part = 'v' .. index
    if dense ~= '' then
      try(part, 'SET', KEYS[4], dense)
      try(part, 'PFMERGE', key, KEYS[4])
      try(part, 'DEL', KEYS[4])
    else
      try(part, 'PFADD', key, unpack(ARGV, at, at + elements - 1))
    end
    -- The same instant at every attempt, so nothing has to tell whether it is set.
    try(part, 'EXPIREAT', key, expiry)
  end
  at = at + elements
end

local list = {}
for part, reason in pairs(refused) do
  list[#list + 1] = part .. ':' .. reason .. ','
end
if #list == 0 then
  return {'applied', ''}
end
-- A resend whose first reply was lost must hear of it too.
local text = table.concat(list)
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. text, 'EX', ARGV[3])
return {'applied', text}
