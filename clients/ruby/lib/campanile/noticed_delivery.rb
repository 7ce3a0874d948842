module Campanile
  # What the delivery methods for noticed 2 and 3 share. `format` answers the fields of POST /notifications:
  #
  #   deliver_by :campanile do |config|
  #     config.format = -> { { title: message, deep_link: url } }
  #   end
  #
  # A job comes back while the server can't be reached, for over an hour. Whatever is made twice has the same key, and creates nothing
  # twice: 24 hours long by the key, and for good by the `external_id`.
  module NoticedDelivery
    def self.included(job)
      job.required_options :format
      job.retry_on Passing, **PATIENCE
    end

    private

    # What the notification or the event and the delivery method are called; of an ephemeral one, which no database keeps, the job, whose
    # name stays the same over its attempts.
    def idempotency_key(of)
      named = of.respond_to?(:to_gid) ? of.to_gid.to_s : job_id
      "#{named}/#{arguments.first}"
    end

    # Creates one, unless an attempt whose key is forgotten has created what has this name. Another name, which `format` gave, is the app's own.
    def once(recipient, key, fields, name)
      ::Campanile.notify(recipient, idempotency_key: key, **fields)
    rescue ExternalIdTaken
      raise unless fields[:external_id] == name
    end

    def fields(external_id)
      { external_id: external_id, **evaluate_option(:format).to_h.transform_keys(&:to_sym) }.compact
    end
  end
end
