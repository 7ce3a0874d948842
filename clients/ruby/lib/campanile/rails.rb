require "rails/railtie"
require "campanile/native_app"
require "campanile/tags"
require "campanile/page_position"

module Campanile
  # What a Rails app has without doing anything.
  class Railtie < Rails::Railtie
    rake_tasks { load File.expand_path("tasks.rake", __dir__) }

    initializer "campanile.tags" do
      ActiveSupport.on_load(:action_view) { include Tags }
    end

    initializer "campanile.page_position" do
      ActiveSupport.on_load(:action_controller_base) { include PagePosition }
      config.to_prepare { ::Turbo::StreamsHelper.prepend(PagePosition::Tag) if defined?(::Turbo::StreamsHelper) }
    end

    initializer "campanile.devise" do
      ::Devise::FailureApp.prepend(NativeApp::DeviseFailure) if defined?(::Devise)
    end

    # By autoload, because the delivery methods' superclasses are the app's jobs, which aren't there yet.
    initializer "campanile.noticed" do
      if defined?(::Noticed::DeliveryMethods)
        ::Noticed::DeliveryMethods.autoload(:Campanile, "noticed/delivery_methods/campanile")
        ::Noticed::BulkDeliveryMethods.autoload(:Campanile, "noticed/bulk_delivery_methods/campanile")
      end
    end
  end
end
