require "campanile/testing"
require "rspec/core"
require "rspec/expectations"

RSpec.configure do |config|
  config.before { Campanile::Testing.start }
  config.after { Campanile::Testing.stop }
end

# expect(user).to have_been_notified(title: /ready/)
# expect { order.ship! }.to notify(user, title: /ready/)
RSpec::Matchers.define :have_been_notified do |**fields|
  match { |user| Campanile::Testing.sent.any? { |one| one.to?(user, fields) } }
  failure_message { |user| "nothing was sent to #{Campanile::Identity.user(user)} with #{fields}; what was sent:\n#{Campanile::Testing.sent.join("\n")}" }
end

RSpec::Matchers.define :notify do |user, **fields|
  supports_block_expectations
  match do |block|
    before = Campanile::Testing.sent.dup
    block.call
    (Campanile::Testing.sent - before).any? { |one| one.to?(user, fields) }
  end
  failure_message { "nothing was sent to #{Campanile::Identity.user(user)} with #{fields}; what was sent:\n#{Campanile::Testing.sent.join("\n")}" }
end
