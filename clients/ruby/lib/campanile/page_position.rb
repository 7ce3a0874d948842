require "active_support/concern"

module Campanile
  # Where the app's broadcasts are when a page begins to be made. The page's elements say it, so what is broadcast between its queries and its
  # subscription comes too. Where there is no key of broadcasts, or no answer in time, a page goes without.
  module PagePosition
    extend ActiveSupport::Concern

    included do
      # Before all other callbacks, which may query.
      before_action :campanile_take_position
      helper_method :campanile_position
    end

    private

    # "epoch:offset", or nil.
    attr_reader :campanile_position

    def campanile_take_position
      return unless Campanile.configuration.broadcast_key? && campanile_page?

      @campanile_position = Campanile.client.broadcast_position(timeout: Campanile.configuration.position_timeout)
    rescue StandardError => error
      logger&.warn("Campanile gave no place in the broadcasts for a page: #{error.message}")
    end

    # A form's page that is shown again is one; a picture that an address of the app's answers is none, and neither is a probe's, which names no
    # HTML.
    def campanile_page?
      return false if request.head? || self.class.name == "Rails::HealthController" || !request.headers["Accept"].to_s.include?("html")

      [nil, "document", "iframe", "empty"].include?(request.headers["Sec-Fetch-Dest"]) && request.format&.html?
    end

    # For turbo-rails' helper.
    module Tag
      def turbo_stream_from(*streamables, **attributes)
        position = campanile_position if respond_to?(:campanile_position)
        super(*streamables, **{ position: position }.compact, **attributes)
      end
    end
  end
end
