-- Broadcasts to random known users. The requests are built beforehand, so that they cost wrk little.
function init(args)
  local jwt, recipients, users, prefix, described = args[1], tonumber(args[2]), tonumber(args[3]), args[4], args[5] == 'described'
  local key, secret = args[6], args[7]
  wrk.method = 'POST'
  if key then
    wrk.headers['X-SERVICE-API-KEY'] = key
    wrk.headers['X-SERVICE-API-SECRET'] = secret
  else
    wrk.headers['Authorization'] = 'Bearer ' .. jwt
  end
  wrk.headers['Content-Type'] = 'application/json'
  math.randomseed(os.time())
  made, nextOne = {}, 0
  for i = 1, (recipients > 10 and 64 or 2000) do
    local list = {}
    for r = 1, recipients do
      local id = prefix .. math.random(0, users - 1)
      list[r] = described
        and string.format('{"external_id":"%s","email":"%s@example.com","first_name":"Ada","last_name":"Lovelace the %d","custom_attributes":{"plan":"pro","seats":%d}}', id, id, r, r)
        or string.format('{"external_id":"%s"}', id)
    end
    local body = '{"title":"Your order is on its way","content":"It arrives <b>tomorrow</b>.","action_url":"https://shop.example/orders/1042","category":"orders","recipients":[' .. table.concat(list, ',') .. ']}'
    made[i] = wrk.format(nil, nil, nil, key and '{"notification":' .. body .. '}' or body)
  end
end

function request()
  nextOne = nextOne % #made + 1
  return made[nextOne]
end

function done(summary, latency, requests)
  local errors = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout
  print(string.format('RESULT {"requests":%d,"perSecond":%f,"errors":%d,"p50Ms":%f,"p99Ms":%f}',
    summary.requests, summary.requests / summary.duration * 1e6, errors, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
