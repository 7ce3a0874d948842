require "campanile"
require "rails/railtie"

module Campanile
  # What a Rails app has without doing anything.
  class Railtie < Rails::Railtie
    rake_tasks { load File.expand_path("tasks.rake", __dir__) }

    # By autoload, because the delivery methods' superclasses are the app's jobs, which aren't there yet.
    initializer "campanile.noticed" do
      if defined?(::Noticed::DeliveryMethods)
        ::Noticed::DeliveryMethods.autoload(:Campanile, "noticed/delivery_methods/campanile")
        ::Noticed::BulkDeliveryMethods.autoload(:Campanile, "noticed/bulk_delivery_methods/campanile")
      end
    end
  end
end
