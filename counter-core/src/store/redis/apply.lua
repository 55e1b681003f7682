-- Applies a batch once.
--
-- KEYS  fence, known, due, scratch (which never exists between two scripts: so a cluster that moves this
--       slot to another node answers TRYAGAIN or ASK before anything is done, and not in the middle), total
-- ARGV  sequence, after, seconds the fence lives, prefix of counts, prefix of visitors,
--       n, then n times: precision, samples                           (counts)
--       n, then n times: precision, samples                           (visitors)
--       n, then n times: counter, m, then m times: start, finest, count
--       n, then n times: counter, start, finest, dense or '', m, then m elements
--
-- A precision is its width, or `width@offset` where buckets begin so many seconds after the multiples.
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
local function try(part, ...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  end
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

local function precisions()
  local all = {}
  for place = 1, tonumber(take()) do
    local text = take()
    local width, offset = string.match(text, '^(%d+)@?(%d*)$')
    all[place] = {
      text = text,
      width = tonumber(width),
      offset = tonumber(offset) or 0,
      samples = tonumber(take()),
    }
  end
  return all
end

local counts, uniques = precisions(), precisions()

local function bucket(start, precision)
  -- The beginning of time cuts the first bucket.
  local first = math.max(start - (start - precision.offset) % precision.width, 0)
  return string.format('%.0f', first), string.format('%.0f', first + precision.width * precision.samples)
end

local cell = 0
for _ = 1, tonumber(take()) do
  local counter = take()
  for _ = 1, tonumber(take()) do
    local start, finest, count = tonumber(take()), tonumber(take()), take()
    local part = 'c' .. cell
    for place = finest, #counts do
      local precision = counts[place]
      local member = precision.text .. ':' .. counter
      local first, expiry = bucket(start, precision)
      local sum = try(part, 'HINCRBY', ARGV[4] .. member, first, count)
      -- The sum is the count when the bucket is new; when it is not, these two change nothing.
      if sum == tonumber(count) then
        try('i0', 'ZADD', KEYS[2], 0, member)
        try('i0', 'ZADD', KEYS[3], 'LT', expiry, member)
      end
    end
    try('i0', 'HINCRBY', KEYS[5], counter, count)
    cell = cell + 1
  end
end

for index = 0, tonumber(take()) - 1 do
  local counter, start, finest, dense, elements = take(), tonumber(take()), tonumber(take()), take(), tonumber(take())
  for place = finest, #uniques do
    local precision = uniques[place]
    local first, expiry = bucket(start, precision)
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
