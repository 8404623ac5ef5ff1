-- Appends entries to a pool's stream; an outcome that is already there is passed over.
--
-- KEYS 1    stream of the pool
--      2    what plans share, by hash
--      3    when each of them was last used
--      4..  for every outcome among the entries, in order: its marker, which holds the id of its entry
-- ARGV 1    milliseconds that a marker lives
--      2    one letter an entry: 'o' outcome to judge, 'p' outcome that passes consumer groups by, 'r' reward
--      3    how many plans follow
--      4..  hash and text of each plan
--      ..   body and plan of each entry, in order; the plan as its place among these, 0 for none
-- Returns   how many entries were new
local stream, plans, life, kinds, count = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3])
local marker, new, used = 3, 0, {}

local function add(kind, body, plan)
  new = new + 1
  if plan == 0 then return redis.call('XADD', stream, '*', 'entry', body, 'kind', kind) end
  local hash = ARGV[2 + 2 * plan]
  if not used[plan] then redis.call('HSETNX', plans, hash, ARGV[3 + 2 * plan]) end
  local id = redis.call('XADD', stream, '*', 'entry', body, 'kind', kind, 'plan', hash)
  used[plan] = string.match(id, '^%d+')
  return id
end

for i = 1, #kinds do
  local at = 2 + 2 * count + 2 * i
  local kind, body, plan = string.sub(kinds, i, i), ARGV[at], tonumber(ARGV[at + 1])
  if kind ~= 'r' then
    marker = marker + 1
    if redis.call('EXISTS', KEYS[marker]) == 0 then
      redis.call('SET', KEYS[marker], add(kind, body, plan), 'PX', life)
    end
  else
    add(kind, body, plan)
  end
end
for plan, ms in pairs(used) do redis.call('ZADD', KEYS[3], 'GT', ms, ARGV[2 + 2 * plan]) end
return new
