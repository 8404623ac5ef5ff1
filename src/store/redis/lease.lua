-- Takes or renews a lease.
--
-- KEYS 1  holder, a key that expires with the lease
--      2  token of the last holder
-- ARGV 1  who asks
--      2  milliseconds that the lease lasts
-- Returns the token, or 0 when another holds the lease
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if holder then return tonumber(redis.call('GET', KEYS[2])) end
return redis.call('INCR', KEYS[2])
