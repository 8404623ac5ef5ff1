-- Gives a lease back.
--
-- KEYS 1  holder
-- ARGV 1  who gives it back
-- Returns 1 when it was its own, else 0
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
