require "campanile"
require "action_cable/subscription_adapter/async"

module ActionCable
  module SubscriptionAdapter
    # `adapter: campanile` in config/cable.yml: what the app broadcasts goes to the pages that listen at Campanile's cable. What isn't a text, as
    # Turbo's broadcasts are, goes only to channels of the app's own on its own cable, in this process, as `async` has it: Campanile carries no
    # such channels.
    class Campanile < Async
      def broadcast(channel, payload)
        super
        message = text(payload)
        ::Campanile.broadcaster.broadcast(channel, message) if message
      end

      private

      # ActionCable has encoded it, unless its caller said `coder: nil`: then a text that is JSON counts as encoded, too.
      def text(payload)
        return unless payload.is_a?(String)

        message = JSON.parse(payload)
        message if message.is_a?(String)
      rescue JSON::ParserError
        payload
      end
    end
  end
end
