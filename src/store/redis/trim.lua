-- Drops the oldest entries of a pool, and what plans shared that no entry is left to use.
--
-- KEYS 1  stream of the pool
--      2  what plans share, by hash
--      3  when each of them was last used
-- ARGV 1  id of the oldest entry to keep
-- Returns how many entries were dropped
local dropped = redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
local before = '(' .. string.match(ARGV[1], '^%d+')
local unused = redis.call('ZRANGE', KEYS[3], '-inf', before, 'BYSCORE')
for _, hash in ipairs(unused) do
  redis.call('HDEL', KEYS[2], hash)
  redis.call('ZREM', KEYS[3], hash)
end
return dropped
