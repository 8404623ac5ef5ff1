-- Takes one of a number of places, or keeps the one that the holder has.
--
-- KEYS 1  who has a place, by the time at which it is free again
-- ARGV 1  who asks
--      2  how many places there are
--      3  milliseconds after which a place is free again that nobody gave back
-- Returns 1 when it has a place, else 0
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local has = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not has and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[1], last[2])
return 1
