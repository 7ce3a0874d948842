-- Sends prepared requests in turn. The first script argument is a file of whole HTTP requests, each ended by a NUL byte;
-- each thread starts at another place. A second argument moves that place. Nothing is built while the load runs, so wrk stays cheap.

local threads = 0
function setup(thread)
   thread:set("number", threads)
   threads = threads + 1
end

function init(arguments)
   local file = assert(io.open(arguments[1], "rb"))
   requests = {}
   for text in file:read("*a"):gmatch("([^%z]+)%z") do requests[#requests + 1] = text end
   file:close()
   count = #requests
   at = (number * 7919 + tonumber(arguments[2] or 0)) % count
end

function request()
   at = at % count + 1
   return requests[at]
end

function done(summary, latency, requests)
   local e = summary.errors
   io.write(string.format(
      '\n{"requests":%d,"microseconds":%d,"bytes":%d,"refused":%d,"broken":%d,"timeouts":%d,"p50":%d,"p99":%d}\n',
      summary.requests, summary.duration, summary.bytes, e.status, e.connect + e.read + e.write, e.timeout,
      latency:percentile(50), latency:percentile(99)))
end
