-- Keeps a text under a name for a while, and only so many of them.
--
-- KEYS 1  the texts by name
--      2  when each is forgotten, in milliseconds
-- ARGV 1  the name
--      2  the text
--      3  milliseconds until it is forgotten
--      4  how many may be kept
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
local function forget(names)
  for _, name in ipairs(names) do
    redis.call('HDEL', KEYS[1], name)
    redis.call('ZREM', KEYS[2], name)
  end
end
forget(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now))
forget(redis.call('ZRANGE', KEYS[2], 0, -1 - ARGV[4]))
-- The latest of all outlives the others.
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
if last[2] then
  for _, key in ipairs(KEYS) do redis.call('PEXPIREAT', key, last[2]) end
end
