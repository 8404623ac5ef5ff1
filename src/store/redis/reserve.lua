-- Adds to a counter unless that would go over its limit.
--
-- KEYS 1  the counter
-- ARGV 1  what to add
--      2  the limit
--      3  milliseconds after the first reservation at which the counter is forgotten
-- Returns 1 when it was added, else 0
local total = tonumber(redis.call('GET', KEYS[1]) or '0')
if total + tonumber(ARGV[1]) > tonumber(ARGV[2]) then return 0 end
redis.call('INCRBY', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1
