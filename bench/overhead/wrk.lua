-- For wrk: sends one body over and over and prints the figures as one line of JSON. Arguments: key, body.
function init(args)
  wrk.method = 'POST'
  wrk.headers['content-type'] = 'application/json'
  wrk.headers['authorization'] = 'Bearer ' .. args[1]
  wrk.body = args[2]
end

function done(summary, latency)
  local e = summary.errors
  print(string.format('{"requests":%d,"seconds":%f,"failed":%d,"p50Ms":%f,"p99Ms":%f}',
    summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
