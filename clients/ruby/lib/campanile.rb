require "json"
require "net/http"
require "openssl"
require "securerandom"
require "time"
require "timeout"
require "uri"

# Notifications, the number on the icon, and pushes, from a Campanile server:
#
#   Campanile.notify(user, title: "Your order is ready", deep_link: "/orders/4711", idempotency_key: "order-4711-ready")
#
# The module's own calls go to the server of `Campanile.configuration`; a Campanile::Client has another.
module Campanile
  autoload :Broadcaster, "campanile/broadcaster"
  autoload :Outbox, "campanile/outbox"
  autoload :DrainJob, "campanile/drain_job"
  autoload :Notifiable, "campanile/notifiable"
  autoload :RecordJob, "campanile/notifiable"

  BROADCASTER = Mutex.new
  private_constant :BROADCASTER

  class << self
    def configuration = @configuration ||= Configuration.new

    def configure
      yield configuration
    end

    def client = @client ||= Client.new(configuration)

    # Another one's broadcasts have a broadcaster of their own.
    def client=(client)
      BROADCASTER.synchronize do
        @broadcaster&.retire
        @client, @broadcaster = client, nil
      end
    end

    %i[notify notify_all preview edit withdraw give_badge reads deliveries sandbox_pushes inbox user_token].each do |name|
      define_method(name) { |*arguments, **fields| client.public_send(name, *arguments, **fields) }
    end

    # The one that sends this program's broadcasts: two would mix up their order.
    def broadcaster = @broadcaster || BROADCASTER.synchronize { @broadcaster ||= begin_broadcasts }

    # Which of these ids a user has handled elsewhere, and the number: a Reconciliation.
    def reconcile(user, ids) = inbox(user).reconcile(ids)

    private

    # Also the former ones have time for what waits when the program ends.
    def begin_broadcasts
      at_exit { @broadcasters.each(&:leave) } unless @broadcasters
      @broadcasters = [*@broadcasters&.reject { |former| former.flush(0) }, Broadcaster.new(client)]
      @broadcasters.last
    end
  end
end

require "campanile/version"
require "campanile/errors"
require "campanile/configuration"
require "campanile/identity"
require "campanile/answers"
require "campanile/connection_pool"
require "campanile/http"
require "campanile/user_token"
require "campanile/inbox"
require "campanile/client"
require "campanile/rails" if defined?(Rails::Railtie)
