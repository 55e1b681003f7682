-- Precedes a script. Every key that is used must be one of KEYS, as Dragonfly requires it by default. If
-- `raises` is true, which is set before, `pcall` does not catch the error.
local redis = (function(real)
  local declared = {}
  for _, key in ipairs(KEYS) do
    declared[key] = true
  end
  local all_keys = {DEL = true, MGET = true, PFCOUNT = true, PFMERGE = true, UNLINK = true}
  local function undeclared(command, first, ...)
    command = string.upper(command)
    if command == 'TIME' then
      return nil
    end
    for _, key in ipairs(all_keys[command] and {first, ...} or {first}) do
      if not declared[key] then
        return 'ERR script tried accessing undeclared key, key: ' .. key
      end
    end
  end
  local checked = setmetatable({}, {__index = real})
  checked.call = function(...)
    local refusal = undeclared(...)
    if refusal then
      error(refusal, 0)
    end
    return real.call(...)
  end
  checked.pcall = function(...)
    local refusal = undeclared(...)
    if refusal and raises then
      error(refusal, 0)
    end
    return refusal and {err = refusal} or real.pcall(...)
  end
  return checked
end)(redis)
