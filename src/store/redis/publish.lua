-- Publishes estimates, unless a holder of a later lease already has.
--
-- KEYS 1  estimates of the system
--      2  fences of the system
-- ARGV 1  field: task and source
--      2  the estimates as text, empty to withdraw them
--      3  token of the publisher's lease
-- Returns 1 when they were published, else 0
local fence = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
if tonumber(ARGV[3]) < fence then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
if ARGV[2] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
return 1
