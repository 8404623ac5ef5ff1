-- Changes releases of one policy, all or none.
--
-- KEYS 1    the policy's releases, by version
--      2    how many transitions each has
--      3    the one that is live: its version and its body
-- ARGV 1..  for each change: version, transitions that are expected, transitions after it, 1 if it is live then, body
-- Returns 1 when they were made; 0 when a state is not the expected one, or two versions would be live
local live = redis.call('HGET', KEYS[3], 'version')
local next = live
for i = 1, #ARGV, 5 do
  if (redis.call('HGET', KEYS[2], ARGV[i]) or '0') ~= ARGV[i + 1] then return 0 end
  if ARGV[i] == live then next = false end
end
for i = 1, #ARGV, 5 do
  if ARGV[i + 3] == '1' then
    if next then return 0 end
    next = ARGV[i]
  end
end
for i = 1, #ARGV, 5 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 4])
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 2])
end
if next then
  redis.call('HSET', KEYS[3], 'version', next, 'body', redis.call('HGET', KEYS[1], next))
else
  redis.call('DEL', KEYS[3])
end
return 1
