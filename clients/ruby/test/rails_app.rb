require "logger"
require "rails"
require "active_record/railtie"
require "active_job/railtie"
require "campanile/rails"

# A Rails app for the tests that need one: jobs that the test runs, and a database in memory, or in the file of DATABASE.
ENV["DATABASE_URL"] = "sqlite3:#{ENV.fetch("DATABASE", ":memory:")}"

class Shop < Rails::Application
  config.root = Dir.mktmpdir("campanile-shop-").tap { |folder| Minitest.after_run { FileUtils.rm_rf(folder) } }
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.active_job.queue_adapter = :test
end

ActiveRecord::Schema.verbose = false

class User < ActiveRecord::Base
  # The server's users are those of all tests.
  after_create { update!(id: SecureRandom.random_number(2**48)) if id < 2**32 }
end

class RailsTest < CampanileTest
  include ActiveJob::TestHelper

  def setup
    super
    ::Campanile.client = campanile
  end

  def teardown
    ::Campanile.client = nil
    clear_enqueued_jobs
  end

  # Also those that a job enqueues: noticed's own job does.
  def run_jobs
    perform_enqueued_jobs until enqueued_jobs.empty?
  end

  def titles(user) = campanile.inbox(user).list.notifications.map(&:title).reverse
end
