-- Adds to counters of windows, each by itself.
--
-- KEYS  scratch (see apply.lua), then the counters
-- ARGV  for each counter: amount, instant of expiry
--
-- Answers for each what it counts then, or a text: why it was refused; or one error, if the server takes no
-- writes at all now, which it says to the first.
--
-- Each is one write, which sets the expiry when it makes the key and at no other time: so nothing can fail
-- in the middle, and no key is left without an expiry.

local answers = {}
for place = 2, #KEYS do
  local amount, expiry = ARGV[2 * place - 3], ARGV[2 * place - 2]
  local answer = redis.pcall('SET', KEYS[place], amount, 'NX', 'EXAT', expiry)
  if not answer then
    answer = redis.pcall('INCRBY', KEYS[place], amount)
  elseif answer.ok then
    answer = tonumber(amount)
  end
  if type(answer) == 'table' then
    -- Redis 6.2 says where in the script it met what it takes no writes for.
    answer = string.match(answer.err, '^@user_script: %d+: %-(.-)%s*$') or answer.err
    if place == 2 and not string.find(answer, '^WRONGTYPE') and not string.find(answer, '^ERR') then
      return redis.error_reply(answer)
    end
  end
  answers[place - 1] = answer
end
return answers
