-- Adds to counters of windows, each by itself.
--
-- KEYS  scratch (see apply.lua), then the counters
-- ARGV  for each counter: amount, instant of expiry, and the instants from which on and up to which it is open
--
-- Returns for each what it counts then, or a text: `CLOSED` and what the server's clock says where that is no
-- instant at which it is open, or why it was refused; or one error, if the server takes no writes at all now,
-- which it says to the first that is open.
--
-- Each is one write, which sets the expiry when it makes the key and at no other time: so nothing can fail
-- in the middle, and no key is left without an expiry.

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
    -- Redis 6.2 says where in the script it met what it takes no writes for.
    answer = string.match(answer.err, '^@user_script: %d+: %-(.-)%s*$') or answer.err
    if not written and not string.find(answer, '^WRONGTYPE') and not string.find(answer, '^ERR') then
      return redis.error_reply(answer)
    end
  end
  written = written or type(answer) == 'number'
  answers[place - 1] = answer
end
return answers
