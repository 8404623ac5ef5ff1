-- Corrects a counter that still exists; a forgotten one stays forgotten.
--
-- KEYS 1  the counter
-- ARGV 1  the difference
-- Returns the total
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
return redis.call('INCRBY', KEYS[1], ARGV[1])
