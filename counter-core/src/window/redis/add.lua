-- Adds to window counters individually.
--
-- - KEYS: scratch (see apply.lua), then the counters
-- - ARGV: for each counter: amount, expiry, start (inclusive) and end (exclusive) of the time range in which
--   it is open
--
-- Returns the new count for each counter, or an error string: `CLOSED` and the server time if the counter is
-- not open, otherwise the reason of the rejection. If the server rejects all writes, which is reported by the
-- first open counter, this returns a single error.
--
-- A counter needs a single write, which only sets the expiry if it creates the key. Thus an error can't leave
-- a partial update or a key without an expiry.

local now = tonumber(redis.call('TIME')[1])
local answers = {}
local written = false
for place = 2, #KEYS do
  local at = 4 * place - 7
  local amount, expiry = ARGV[at], ARGV[at + 1]
  local answer
  if now < tonumber(ARGV[at + 2]) or now >= tonumber(ARGV[at + 3]) then
    answer = 'CLOSED ' .. now
  else
    answer = redis.pcall('SET', KEYS[place], amount, 'NX', 'EXAT', expiry)
    if not answer then
      answer = redis.pcall('INCRBY', KEYS[place], amount)
    elseif answer.ok then
      answer = tonumber(amount)
    end
  end
  if type(answer) == 'table' then
    -- Redis 6.2 prefixes this error with the position in the script.
    answer = string.match(answer.err, '^@user_script: %d+: %-(.-)%s*$') or answer.err
    if not written and not string.find(answer, '^WRONGTYPE') and not string.find(answer, '^ERR') then
      return redis.error_reply(answer)
    end
  end
  written = written or type(answer) == 'number'
  answers[place - 1] = answer
end
return answers
