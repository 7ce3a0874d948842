module Campanile
  # Telling a native app's requests from a browser's.
  module NativeApp
    # By User-Agent, as the server tells them (docs/hotwire-native.md).
    PATTERN = /(Turbo|Hotwire) Native/

    def self.request?(request)
      agent = request.user_agent.to_s
      agent.match?(PATTERN) || Campanile.configuration.native_user_agents.any? { |one| one.is_a?(Regexp) ? agent.match?(one) : agent.include?(one) }
    end

    # For ApplicationController: a native app's request that nobody is signed in for gets 401 in the place of a redirect, and the app shows
    # its sign-in. Rails 8's generated authentication calls this method; Devise has Campanile::NativeApp::DeviseFailure.
    module Authentication
      private

      def request_authentication = NativeApp.request?(request) ? head(:unauthorized) : super
    end

    # Goes before Devise::FailureApp. A wrong password doesn't come here, but to `recall`, and shows the form again.
    module DeviseFailure
      def redirect
        return super unless NativeApp.request?(request)

        self.status = :unauthorized
        self.content_type = "text/plain"
        self.response_body = ""
      end
    end
  end
end
