module Campanile
  # How users and notifications are named in a call.
  module Identity
    # A user's id as text: of a record its `id`, of anything else itself.
    def self.user(user)
      id = (user.respond_to?(:id) ? user.id : user).to_s
      raise ArgumentError, "the user has no id: #{user.inspect[0, 100]}" if id.empty?

      id
    end

    # A notification's id.
    def self.notification(notification)
      id = (notification.respond_to?(:id) ? notification.id : notification).to_s
      raise ArgumentError, "the notification has no id" if id.empty?

      id
    end

    # A notification's id as a segment of a path.
    def self.segment(notification) = escape(self.notification(notification))

    def self.escape(text) = URI.encode_www_form_component(text).gsub("+", "%20")
  end
end
