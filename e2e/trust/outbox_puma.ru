# The app of outbox.py in Puma: POST /?user=… makes an order, whose notification a job of the same Puma sends.
require_relative "outbox_app"

ActiveJob::Base.queue_adapter = :async

run(lambda do |env|
  App.order(Rack::Utils.parse_query(env["QUERY_STRING"])["user"], by_outbox: true)
  [201, {}, []]
end)
