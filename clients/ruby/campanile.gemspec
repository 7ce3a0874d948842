require_relative "lib/campanile/version"

Gem::Specification.new do |spec|
  spec.name = "campanile"
  spec.version = Campanile::VERSION
  spec.summary = "Inbox, badge and pushes of a Campanile server, for Ruby and Rails"
  spec.description = "The calls of a Campanile server, with retries that create nothing twice; for Rails a generator, delivery " \
                     "methods for noticed, and an outbox in the app's own database."
  spec.authors = ["The Campanile authors"]
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*", "README.md"].select { |path| File.file?(path) }.sort }
  # No other gem is needed. Rails, noticed, Devise and RSpec are used where the app has them.
end
