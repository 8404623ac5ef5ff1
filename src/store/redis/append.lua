-- Appends entries to a pool's stream; an outcome that is already there is passed over.
--
-- KEYS 1    stream of the pool
--      2..  for every outcome among the entries, in order: its marker, which holds the id of its entry
-- ARGV 1    milliseconds that a marker lives
--      2    one letter an entry: 'o' outcome to judge, 'p' outcome that passes consumer groups by, 'r' reward
--      3..  the entries as text, in order
-- Returns   how many entries were new
local stream, life, kinds = KEYS[1], ARGV[1], ARGV[2]
local marker, new = 1, 0
for i = 1, #kinds do
  local body = ARGV[i + 2]
  local kind = string.sub(kinds, i, i)
  if kind ~= 'r' then
    marker = marker + 1
    if redis.call('EXISTS', KEYS[marker]) == 0 then
      redis.call('SET', KEYS[marker], redis.call('XADD', stream, '*', 'entry', body, 'kind', kind), 'PX', life)
      new = new + 1
    end
  else
    redis.call('XADD', stream, '*', 'entry', body, 'kind', kind)
    new = new + 1
  end
end
return new
