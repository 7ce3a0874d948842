# The app of broadcasts.py: a Rails with Action Cable and no more, that broadcasts as turbo-rails does. config/cable.yml in its folder says by
# which adapter.
#
#   POST /broadcasts?number=N   a text to each room
#   GET  /flushed               204 when Campanile has taken all of them
require "action_controller/railtie"
require "action_cable/engine"
require "campanile"

ROOMS = ENV.fetch("ROOMS").split
SIGNED = ActiveSupport::MessageVerifier.new(ENV.fetch("CAMPANILE_CABLE_SIGNED_STREAM_KEY"), digest: "SHA256", serializer: JSON)

class App < Rails::Application
  config.root = Dir.pwd
  config.load_defaults 6.1
  config.eager_load = true
  config.secret_key_base = ENV.fetch("SECRET_KEY_BASE")
  config.logger = Logger.new($stderr, level: Logger::WARN)
  config.action_cable.disable_request_forgery_protection = true # nobody here is a page with an origin
end

module ApplicationCable
  class Connection < ActionCable::Connection::Base; end
end

module Turbo
  # turbo-rails' channel, made again: whoever has a signed name may listen.
  class StreamsChannel < ActionCable::Channel::Base
    def subscribed
      name = SIGNED.verified(params[:signed_stream_name])
      name ? stream_from(name) : reject
    end
  end
end

module Answers
  module_function

  def broadcast(env)
    number = Rack::Utils.parse_query(env["QUERY_STRING"]).fetch("number")
    ROOMS.each do |room|
      html = %(<turbo-stream action="append" target="messages"><template><p id="#{room}/#{number}">#{"é&" * 50}</p></template></turbo-stream>)
      ActionCable.server.broadcast(room, html)
    end
    [204, {}, []]
  end

  def flushed(_env) = [Campanile.broadcaster.flush(60) ? 204 : 503, {}, []]

  def ready(_env) = [200, {}, ["ready"]]
end

App.initialize!
App.routes.draw do
  post "/broadcasts", to: Answers.method(:broadcast)
  get "/flushed", to: Answers.method(:flushed)
  get "/ready", to: Answers.method(:ready)
end
run App
