require "campanile/noticed_delivery"

module Noticed
  module DeliveryMethods
    # A call for each recipient. Within this namespace `Campanile` is this class.
    #
    # A stored notification's `external_id` is "noticed:ID", unless `format` says another: the name that docs/moving-in.md imports it by.
    class Campanile < DeliveryMethod
      include ::Campanile::NoticedDelivery

      def deliver
        name = "noticed:#{notification.id}" if notification.respond_to?(:id)
        once(recipient, idempotency_key(notification), fields(name), name)
      end
    end
  end
end
