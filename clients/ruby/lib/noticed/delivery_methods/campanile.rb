require "campanile/noticed_delivery"

module Noticed
  module DeliveryMethods
    # A call for each recipient. Within this namespace `Campanile` is this class.
    #
    # A stored notification's `external_id` is "noticed:ID", unless `format` says another: the name that docs/moving-in.md imports it by.
    class Campanile < DeliveryMethod
      include ::Campanile::NoticedDelivery

      def deliver
        id = notification.id if notification.respond_to?(:id)
        ::Campanile.notify(recipient, idempotency_key: idempotency_key(notification), **fields(id && "noticed:#{id}"))
      rescue ::Campanile::ExternalIdTaken
        nil # it was created, and its key is forgotten
      end
    end
  end
end
