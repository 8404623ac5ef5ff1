-- Adds one reward of a coalition run to the running sums, or replaces an older one, and acknowledges its entry: one
-- step, so that a consumer may die anywhere. The fields are those of ../tally-update.ts, which is the same computation.
--
-- KEYS 1  join: what the prompt instance has added so far: '<mask>:<replicate>' = '<reward|NA>@<entry id>@<design>',
--         and 'bucket' = the bucket that it adds to
--      2  sums of the bucket
--      3  stream of the pool
--      4  set of the names of all sums of the pool
-- ARGV 1  consumer group, or '' to acknowledge nothing       2  entry id    3  mask    4  pool size    5  replicate
--      6  reward × 10,000, or 'NA'    7  milliseconds that the join lives    8  design: d, f or -
--      9  bucket               10  name of the sums, for the set
-- Returns 'new', 'named' (new, and the first of its sums), 'revised', 'duplicate', or 'bucket:<b>' when the prompt adds to bucket b: nothing was done then,
--         and the caller repeats with the sums of that bucket
local join, sums, stream, names = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, entry, mask, n, replicate = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local reward, life, design, bucket = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local grand = 2 ^ n - 1

local function acknowledge()
  if group ~= '' then redis.call('XACK', stream, group, entry) end
end
local function text(x) return string.format('%.0f', x) end
local function add(field, amount)
  if amount ~= 0 then redis.call('HINCRBY', sums, field, text(amount)) end
end
local function cell(stored)
  local value, ms, seq, drawn = string.match(stored, '^([^@]+)@(%d+)%-(%d+)@(.)$')
  return { reward = tonumber(value), ms = tonumber(ms), seq = tonumber(seq), design = drawn }
end
local function known(m)
  local stored = redis.call('HGET', join, text(m) .. ':0')
  return stored and cell(stored)
end
local function cells()
  local flat, found = redis.call('HGETALL', join), {}
  for i = 1, #flat, 2 do
    local m, r = string.match(flat[i], '^(%d+):(%d+)$')
    if r == '0' then found[tonumber(m)] = cell(flat[i + 1]) end
  end
  return found
end
local function members(m)
  local has, size, rest = {}, 0, m
  for i = 0, n - 1 do
    has[i] = rest % 2
    size = size + has[i]
    rest = (rest - has[i]) / 2
  end
  return has, size
end
local function factorial(k)
  local product = 1
  for i = 2, k do product = product * i end
  return product
end

local new = cell(reward .. '@' .. entry .. '@' .. design)
local stored = redis.call('HGET', join, ARGV[3] .. ':' .. replicate)
local old = stored and cell(stored)
if old and (old.ms > new.ms or (old.ms == new.ms and old.seq >= new.seq)) then
  acknowledge()
  return 'duplicate'
end
local pinned = redis.call('HGET', join, 'bucket')
if pinned and pinned ~= bucket then return 'bucket:' .. pinned end
-- What leaves the sums, and what enters them.
local changes = old and { { old, -1 }, { new, 1 } } or { { new, 1 } }

local function addValue(c, sign)
  local m = ARGV[3]
  if not c.reward then return add(m .. ':x', sign) end
  add(m .. ':n', sign)
  add(m .. ':s', sign * c.reward)
  add(m .. ':q', sign * c.reward * c.reward)
end

local function addPair(m, part, whole, sign)
  if not part or not whole then return end
  local difference = part - whole
  m = text(m)
  add(m .. ':dn', sign)
  add(m .. ':ds', sign * difference)
  add(m .. ':dq', sign * difference * difference)
  if difference > 0 then add(m .. ':dp', sign) elseif difference < 0 then add(m .. ':dm', sign) end
end

local function addPairs()
  if mask == grand then
    for m, c in pairs(cells()) do
      if m ~= grand then
        for _, change in ipairs(changes) do addPair(m, c.reward, change[1].reward, change[2]) end
      end
    end
  else
    local whole = known(grand)
    if not whole then return end
    for _, change in ipairs(changes) do addPair(mask, change[1].reward, whole.reward, change[2]) end
  end
end

local function addDuelRow(own, rival, sign)
  if not own or not rival then return add('D:x', sign) end
  local has, size = members(mask)
  local row = {}
  for i = 0, n - 1 do
    local half = has[i] == 1 and size or n - size
    local lead = has[i] == 1 and own - rival or rival - own
    row[i] = (n - half) * lead
    local prefix = 'S:' .. i .. ':' .. text(half)
    add(prefix .. ':n', sign)
    add(prefix .. ':e', sign * lead)
    add(prefix .. ':q', sign * lead * lead)
  end
  add('D:n', sign)
  for i = 0, n - 1 do
    add('D:' .. i, sign * row[i])
    for j = i, n - 1 do add('D:' .. i .. ':' .. j, sign * row[i] * row[j]) end
  end
end

local function addDuel()
  if mask == grand then return end
  local rival = known(grand - mask)
  if not rival or rival.design ~= 'd' then return end
  for _, change in ipairs(changes) do
    if change[1].design == 'd' then addDuelRow(change[1].reward, rival.reward, change[2]) end
  end
end

-- The row of ../panel.ts: columns and values of one prompt whose every coalition has a reward.
local function panelRow(rewards)
  local shapley = {}
  for i = 0, n - 1 do shapley[i] = 0 end
  for m = 1, grand do
    local has, size = members(m)
    local inside = factorial(size - 1) * factorial(n - size)
    local outside = size < n and factorial(size) * factorial(n - 1 - size) or 0
    for i = 0, n - 1 do
      shapley[i] = shapley[i] + (has[i] == 1 and inside or -outside) * rewards[m]
    end
  end
  local columns, row = {}, {}
  local function put(column, value)
    columns[#columns + 1] = column
    row[#row + 1] = value
  end
  for i = 0, n - 1 do put('u' .. i, 10 * rewards[2 ^ i]) end
  for i = 0, n - 1 do put('l' .. i, 10 * (rewards[grand] - rewards[grand - 2 ^ i])) end
  for i = 0, n - 1 do
    local numerator, denominator = 10 * (shapley[i] - rewards[grand] * factorial(n - 1)), factorial(n)
    local size = math.floor((2 * math.abs(numerator) + denominator) / (2 * denominator))
    put('c' .. i, numerator < 0 and -size or size)
  end
  put('g', 10 * rewards[grand])
  return columns, row
end

local function addPanelRow(rewards, sign)
  local columns, row = panelRow(rewards)
  for i, column in ipairs(columns) do
    add('F:' .. column .. ':n', sign)
    add('F:' .. column .. ':s', sign * row[i])
    add('F:' .. column .. ':q', sign * row[i] * row[i])
    for j = i + 1, #columns do add('F:' .. column .. ':' .. columns[j], sign * row[i] * row[j]) end
  end
end

local function addPanel()
  if n > 8 or (new.design ~= 'f' and not (old and old.design == 'f')) then return end
  -- The join holds the bucket's field and this cell too, if it is known: fewer fields cannot be a full panel.
  if redis.call('HLEN', join) - 1 + (old and 0 or 1) < grand then return end
  local all, rewards = cells(), { [0] = 0 }
  for m = 1, grand do
    if m ~= mask then
      local c = all[m]
      if not c or c.design ~= 'f' or not c.reward then return end
      rewards[m] = c.reward
    end
  end
  for _, change in ipairs(changes) do
    if change[1].design == 'f' and change[1].reward then
      rewards[mask] = change[1].reward
      addPanelRow(rewards, change[2])
    end
  end
end

local isNamed = false
if not pinned then
  redis.call('HSET', join, 'bucket', bucket)
  isNamed = redis.call('SADD', names, ARGV[10]) == 1
end
for _, change in ipairs(changes) do addValue(change[1], change[2]) end
if replicate == '0' then
  addPairs()
  addDuel()
  addPanel()
end
redis.call('HSET', join, ARGV[3] .. ':' .. replicate, reward .. '@' .. entry .. '@' .. design)
redis.call('PEXPIRE', join, life)
acknowledge()
return old and 'revised' or isNamed and 'named' or 'new'
