# noticed 3's interface, made again from its documentation (README.md and docs/extending-noticed.md of its repository), as far as a delivery
# method sees it: events and notifications that are stored, ephemeral ones, delivery methods that are jobs. Neither Debian nor PyPI has
# the gem; NOTICED=/its/folder runs the same tests with the gem itself.
module Noticed
  module Options
    def self.included(base)
      base.extend(ClassMethods)
      base.class_attribute :required_option_names, default: []
    end

    module ClassMethods
      def required_options(*names) = self.required_option_names += names
    end

    def evaluate_option(name)
      option = config[name]
      return context.instance_exec(&option) if option.respond_to?(:call)
      return event.send(option, *option_arguments) if option.is_a?(Symbol) && event.respond_to?(option, true)

      option
    end
  end

  class DeliveryMethod < ActiveJob::Base
    include Options

    attr_reader :config, :event, :notification
    delegate :recipient, to: :notification

    def perform(name, notification, recipient: nil, params: {}, overrides: {})
      @notification = notification.is_a?(String) ? notification.constantize.new_with_params(recipient, params) : notification
      @event = @notification.event
      @config = event.delivery_methods.fetch(name).config.merge(overrides)
      deliver
    end

    private

    def context = notification

    def option_arguments = [notification]
  end

  class BulkDeliveryMethod < ActiveJob::Base
    include Options

    attr_reader :config, :event

    def perform(name, event, recipient: nil, params: {}, overrides: {})
      if event.is_a?(String)
        @event, @config = event.constantize.new_with_params(recipient, params), overrides
      else
        @event, @config = event, event.bulk_delivery_methods.fetch(name).config.merge(overrides)
      end
      deliver
    end

    private

    def context = event

    def option_arguments = []
  end

  module DeliveryMethods; end
  module BulkDeliveryMethods; end

  Method = Struct.new(:name, :config, :constant)

  module Notifier
    def self.included(base)
      base.extend(ClassMethods)
      base.class_attribute :delivery_methods, :bulk_delivery_methods, default: {}
    end

    module ClassMethods
      def deliver_by(name) = self.delivery_methods = { **delivery_methods, name => method_named(DeliveryMethods, name) { |config| yield config } }

      def bulk_deliver_by(name) = self.bulk_delivery_methods = { **bulk_delivery_methods, name => method_named(BulkDeliveryMethods, name) { |config| yield config } }

      def method_named(namespace, name)
        config = ActiveSupport::OrderedOptions.new
        yield config
        constant = namespace.const_get(name.to_s.camelize)
        missing = constant.required_option_names.reject { |option| config[option] }
        raise ArgumentError, "option #{missing} must be set" unless missing.empty?

        Method.new(name, config, constant)
      end
    end
  end

  class Event < ActiveRecord::Base
    self.table_name = "noticed_events"
    include Notifier
    has_many :notifications, class_name: "Noticed::Notification"
    serialize :params, JSON

    def self.with(params) = new(params: params.stringify_keys)

    def deliver(recipients)
      save!
      Array(recipients).each { |one| notifications.create!(type: "#{self.class.name}::Notification", recipient: one) }
      bulk_delivery_methods.each_value { |one| one.constant.perform_later(one.name, self) }
      notifications.each { |notification| delivery_methods.each_value { |one| one.constant.perform_later(one.name, notification) } }
      self
    end

    def self.inherited(notifier)
      super
      notifier.const_set(:Notification, Class.new(Noticed::Notification))
    end
  end

  class Notification < ActiveRecord::Base
    self.table_name = "noticed_notifications"
    belongs_to :event, class_name: "Noticed::Event"
    belongs_to :recipient, polymorphic: true
    delegate :params, to: :event
  end

  class Ephemeral
    include Notifier

    class Notification
      attr_reader :recipient, :event

      delegate :params, to: :event

      def self.new_with_params(recipient, params) = new(recipient, module_parent.with(params))

      def initialize(recipient, event)
        @recipient, @event = recipient, event
      end
    end

    attr_reader :params

    def self.with(params) = new(params)

    def self.inherited(notifier)
      super
      notifier.const_set(:Notification, Class.new(Notification))
    end

    def initialize(params)
      @params = params
    end

    def deliver(recipients)
      name = "#{self.class.name}::Notification"
      bulk_delivery_methods.each_value { |one| one.constant.perform_later(one.name, name, recipient: recipients, params: params) }
      recipients.each do |recipient|
        delivery_methods.each_value { |one| one.constant.perform_later(one.name, name, recipient: recipient, params: params) }
      end
    end
  end
end
