require "campanile/noticed_delivery"

module Noticed
  module BulkDeliveryMethods
    # One call for all recipients of an event, or several of 1,000 each. Within this namespace `Campanile` is this class.
    #
    # A stored event's `external_id` is "noticed:event:ID", unless `format` says another.
    class Campanile < BulkDeliveryMethod
      include ::Campanile::NoticedDelivery

      def deliver
        name = "noticed:event:#{event.id}" if event.respond_to?(:id)
        key, shown = idempotency_key(event), fields(name)
        ::Campanile.notify_all(recipients, idempotency_key: key, **shown)
      rescue ::Campanile::ExternalIdTaken
        raise unless shown[:external_id] == name

        # Some have theirs from an attempt whose key is forgotten.
        recipients.each { |recipient| once(recipient, "#{key}/#{::Campanile::Identity.user(recipient)}", shown, name) }
      end

      # noticed gives the job of an ephemeral event no configuration: the notifier has it.
      def config
        found = super
        found.key?(:format) || !event.respond_to?(:event) ? found : event.event.bulk_delivery_methods.fetch(arguments.first).config.merge(found)
      end

      private

      def recipients
        event.respond_to?(:notifications) ? event.notifications.includes(:recipient).filter_map(&:recipient) : Array(event.recipient)
      end
    end
  end
end
