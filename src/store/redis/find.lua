-- The text that is kept under a name, unless its time is over.
--
-- KEYS 1  the texts by name
--      2  when each is forgotten, in milliseconds
-- ARGV 1  the name
local ends = redis.call('ZSCORE', KEYS[2], ARGV[1])
local time = redis.call('TIME')
if not ends or tonumber(ends) <= time[1] * 1000 + math.floor(time[2] / 1000) then return false end
return redis.call('HGET', KEYS[1], ARGV[1])
