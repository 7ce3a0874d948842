require "campanile/testing"

module Campanile
  # `include Campanile::Assertions` in a test case, or in ActiveSupport::TestCase for all.
  module Assertions
    def before_setup
      Testing.start
      super
    end

    def after_teardown
      super
      Testing.stop
    end

    # A notification with these fields was created for the user: in the block, if there is one, else at all. A field matches by `===`.
    # Answers it.
    def assert_notified(user, **fields)
      before = block_given? ? Testing.sent.dup : []
      yield if block_given?
      sent = Testing.sent - before
      found = sent.find { |one| one.to?(user, fields) }
      assert found, "Nothing was sent to #{Identity.user(user)} with #{fields}. What was sent:\n#{sent.map { |one| "  #{one}\n" }.join}"
      found
    end

    # None was.
    def refute_notified(user, **fields)
      before = block_given? ? Testing.sent.dup : []
      yield if block_given?
      found = (Testing.sent - before).find { |one| one.to?(user, fields) }
      refute found, "This was sent: #{found}"
    end
  end
end
